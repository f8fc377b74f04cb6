// Stream text as a terminal shows it: ANSI colours, carriage return, backspace.
// Text is taken at any speed; what is seen is drawn once a frame of the screen.

const LINES_MAX = 2000; // what a browser draws and scrolls comfortably
const COLUMNS_MAX = 4000; // a longer line is broken: one node of megabytes stalls the browser
const TOKEN = /\x1b\[([0-9;:?]*)([@-~])|\x1b[^[]|[^\x1b\n\r\b]{1,200}|[^]/gu;
const UNFINISHED = /\x1b(\[[0-9;:?]{0,60})?$/; // a sequence split across two messages

/** The nearest of the eight colours to what follows an SGR code 38 or 48. */
function nearest([form, a = 0, b = 0, c = 0]: number[]): number {
	if (form === 5 && a < 16) return a % 8;
	if (form === 5 && a >= 232) return a < 244 ? 0 : 7;
	const cube = [(a - 16) / 36, ((a - 16) / 6) % 6, (a - 16) % 6].map((level) => level * 51);
	return (form === 5 ? cube : [a, b, c]).reduce((bits, level, i) => bits | (level >= 100 ? 1 << i : 0), 0);
}

export class Terminal {
	private style = ""; // classes of carrel.css: b, i, u, f0…f7, g0…g7
	private cells: { ch: string; style: string }[] = []; // of the line under the cursor
	private column = 0;
	private pending = "";
	private scheduled = false;
	private lines = 0;
	private finished: HTMLElement[] = []; // lines not yet in the document
	private readonly current = document.createElement("span");

	/** dropped is called once, when there are more lines than are shown. */
	constructor(private readonly pre: HTMLElement, private readonly dropped: () => void) {
		pre.append(this.current);
	}

	write(text: string): void {
		const whole = this.pending + text;
		this.pending = UNFINISHED.exec(whole)?.[0] ?? "";
		for (const [token, codes, final] of whole.slice(0, whole.length - this.pending.length).matchAll(TOKEN)) {
			if (token === "\n" || this.column >= COLUMNS_MAX) this.newline();
			if (token === "\r") this.column = 0;
			else if (token === "\b") this.column = Math.max(0, this.column - 1);
			else if (final === "m") this.select(codes!.split(/[;:]/).map(Number));
			else if (final === "K") this.cells.length = Math.min(this.cells.length, this.column);
			else if (!/^[\n\x1b]/.test(token)) for (const ch of token) this.cells[this.column++] = { ch, style: this.style };
		}
		if (!this.scheduled) requestAnimationFrame(() => this.draw());
		this.scheduled = true;
	}

	private newline(): void {
		const line = document.createElement("span");
		line.append(...this.spans(), "\n");
		this.finished.push(line);
		if (this.finished.length > LINES_MAX) this.finished.shift();
		if (++this.lines === LINES_MAX) this.dropped();
		this.cells = [];
		this.column = 0;
	}

	private draw(): void {
		const atEnd = this.pre.scrollTop + this.pre.clientHeight >= this.pre.scrollHeight - 4;
		this.scheduled = false;
		this.current.before(...this.finished.splice(0));
		this.current.replaceChildren(...this.spans());
		while (this.pre.childElementCount > LINES_MAX) this.pre.firstElementChild!.remove();
		if (atEnd) this.pre.scrollTop = this.pre.scrollHeight;
	}

	private spans(): HTMLElement[] {
		const spans: HTMLElement[] = [];
		for (let i = 0; i < this.cells.length; ) {
			const className = this.cells[i]!.style;
			let textContent = "";
			while (this.cells[i]?.style === className) textContent += this.cells[i++]!.ch;
			spans.push(Object.assign(document.createElement("span"), { className, textContent }));
		}
		return spans;
	}

	/** SGR: colours and weights from here on. */
	private select(codes: number[]): void {
		const set = new Set(this.style.split(" "));
		const ink = (kind: string, colour: number) => {
			for (const old of set) if (old[0] === kind) set.delete(old);
			if (colour < 8) set.add(kind + colour);
		};
		for (let i = 0; i < codes.length; i++) {
			const n = codes[i]!;
			const kind = n % 60 < 40 ? "f" : "g"; // 30-39 and 90-97, or 40-49 and 100-107
			if (n === 0) set.clear();
			else if (n === 1 || n === 3 || n === 4) set.add("-b-iu"[n]!);
			else if (n >= 22 && n <= 24) set.delete("biu"[n - 22]!);
			else if (n === 38 || n === 48) {
				ink(kind, nearest(codes.slice(i + 1, i + 5)));
				i += codes[i + 1] === 5 ? 2 : 4;
			} else if ((n >= 30 && n <= 49) || (n >= 90 && n <= 107)) ink(kind, n % 10);
		}
		this.style = [...set].join(" ").trim();
	}
}
