// Stream text as a terminal shows it: ANSI colours, carriage return, backspace.
// Finished lines are written once; only the line under the cursor is drawn again.

const LINES_MAX = 5000; // what a browser scrolls comfortably; the whole text is one click away

export class Terminal {
	private style = "";
	private cells: { ch: string; style: string }[] = [];
	private column = 0;
	private pending = "";
	private readonly current = document.createElement("span");
	private lines = 0;

	constructor(private readonly pre: HTMLElement) {
		pre.append(this.current);
	}

	write(text: string): void {
		const whole = this.pending + text;
		this.pending = "";
		for (let i = 0; i < whole.length; ) {
			const ch = whole[i]!;
			if (ch === "\x1b") {
				const m = /^\x1b(?:\[([0-9;?]*)([@-~])|[^[])/.exec(whole.slice(i, i + 64));
				if (!m && whole.length - i < 64) {
					this.pending = whole.slice(i); // split across two messages
					break;
				}
				if (m?.[2] === "m") this.sgr(m[1] ?? "");
				if (m?.[2] === "K") this.cells.length = Math.min(this.cells.length, this.column);
				i += m ? m[0].length : 1;
				continue;
			}
			const unit = String.fromCodePoint(whole.codePointAt(i)!);
			if (ch === "\n") this.newline();
			else if (ch === "\r") this.column = 0;
			else if (ch === "\b") this.column = Math.max(0, this.column - 1);
			else this.cells[this.column++] = { ch: unit, style: this.style };
			i += unit.length;
		}
		this.draw(this.current);
	}

	private newline(): void {
		const line = document.createElement("span");
		this.draw(line);
		line.append("\n");
		this.current.before(line);
		if (++this.lines > LINES_MAX) this.pre.firstChild?.remove();
		this.cells = [];
		this.column = 0;
	}

	private draw(into: HTMLElement): void {
		into.replaceChildren();
		for (let i = 0; i < this.cells.length; ) {
			const style = this.cells[i]?.style ?? "";
			let run = "";
			while (i < this.cells.length && (this.cells[i]?.style ?? "") === style) run += this.cells[i++]?.ch ?? " ";
			const span = document.createElement("span");
			if (style) span.className = style;
			span.textContent = run;
			into.append(span);
		}
	}

	private sgr(codes: string): void {
		const set = new Set(this.style.split(" ").filter(Boolean));
		const drop = (prefix: string) => [...set].filter((c) => c[0] === prefix).forEach((c) => set.delete(c));
		const list = codes.split(";").map(Number);
		for (let i = 0; i < list.length; i++) {
			const n = list[i]!;
			if (n === 0) set.clear();
			else if (n === 1) set.add("b");
			else if (n === 3) set.add("i");
			else if (n === 4) set.add("u");
			else if (n === 22) set.delete("b");
			else if (n === 38 || n === 48) i += list[i + 1] === 5 ? 2 : 4; // 256 and true colours: left to the default
			else if (n === 39) drop("f");
			else if (n === 49) drop("g");
			else if ((n >= 30 && n <= 37) || (n >= 90 && n <= 97)) drop("f"), set.add(`f${n % 10}`);
			else if ((n >= 40 && n <= 47) || (n >= 100 && n <= 107)) drop("g"), set.add(`g${n % 10}`);
		}
		this.style = [...set].join(" ");
	}
}
