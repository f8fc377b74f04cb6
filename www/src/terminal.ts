// Stream text as a terminal shows it: ANSI colours, carriage return, backspace.
// Text is taken at any speed; what is seen is drawn a few times a second.

const LINES_MAX = 1000; // what a browser draws and scrolls comfortably
const DRAW_MS = 100;
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

/** Two lists, because an object for each character makes a flood four times slower. */
type Line = { chars: string[]; styles: string[] }; // styles: classes of carrel.css, of b, i, u, f0…f7, g0…g7

function spans({ chars, styles }: Line, end: string): HTMLElement {
	const whole = document.createElement("span");
	for (let i = 0, start = 0; i < chars.length; start = i) {
		while (i < chars.length && styles[i] === styles[start]) i++;
		const [className, textContent] = [styles[start], chars.slice(start, i).join("")];
		whole.append(className ? Object.assign(document.createElement("span"), { className, textContent }) : textContent);
	}
	whole.append(end);
	return whole;
}

export class Terminal {
	private style = "";
	private line: Line = { chars: [], styles: [] }; // under the cursor
	private column = 0;
	private pending = "";
	private timer = 0;
	private lines = 0;
	private finished: Line[] = []; // not yet in the document
	private current = document.createElement("span");

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
			else if (final === "K") this.line.chars.length = Math.min(this.line.chars.length, this.column);
			else if (!/^[\n\x1b]/.test(token))
				for (const ch of token) (this.line.styles[this.column] = this.style), (this.line.chars[this.column++] = ch);
		}
		this.timer ||= setTimeout(() => this.draw(), DRAW_MS);
	}

	private newline(): void {
		this.finished.push(this.line);
		if (this.finished.length > LINES_MAX) this.finished.shift();
		if (++this.lines === LINES_MAX) this.dropped();
		this.line = { chars: [], styles: [] };
		this.column = 0;
	}

	draw(): void {
		const atEnd = this.pre.scrollTop + this.pre.clientHeight >= this.pre.scrollHeight - 4;
		this.current.remove();
		this.current = spans(this.line, "");
		this.pre.append(...this.finished.splice(0).map((line) => spans(line, "\n")), this.current);
		while (this.pre.childElementCount > LINES_MAX) this.pre.firstElementChild!.remove();
		if (atEnd) this.pre.scrollTop = this.pre.scrollHeight;
		this.timer = 0;
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
