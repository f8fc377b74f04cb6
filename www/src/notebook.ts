// Cells: their text, their events, how they survive a reload and leave as .ipynb.

import type { Event } from "./api";
import { Outputs } from "./output";

const SAVED = "carrel.cells";

interface Saved {
	source: string;
	xid?: string | undefined;
}

export class Cell {
	readonly root = document.createElement("div");
	readonly editor = document.createElement("textarea");
	private readonly counter = document.createElement("div");
	private readonly place = document.createElement("div");
	outputs: Outputs;
	events: Event[] = [];
	xid: string | undefined;
	running = false;

	constructor(saved: Saved) {
		this.root.className = "cell";
		this.counter.className = "count";
		this.place.className = "outputs";
		this.editor.value = saved.source;
		this.editor.spellcheck = false;
		this.editor.setAttribute("aria-label", "Code");
		this.editor.addEventListener("input", () => this.fit());
		this.root.append(this.counter, this.editor, this.place);
		this.outputs = new Outputs(this.place);
		this.xid = saved.xid;
		this.count("[ ]");
	}

	fit(): void {
		this.editor.rows = Math.max(1, this.editor.value.split("\n").length);
	}

	count(text: string): void {
		this.counter.textContent = text;
		this.root.classList.toggle("running", this.running);
	}

	clear(): void {
		this.events = [];
		this.outputs = new Outputs(this.place);
	}

	/** One event of the cell's execution; false for one seen before. */
	take(e: Event): boolean {
		if ("seq" in e && e.seq <= this.lastSeq()) return false;
		if (e.type !== "keepalive") this.events.push(e);
		if (e.type === "queued" || e.type === "started") this.xid = e.execution_id;
		if (e.type === "started") this.started = `[${e.execution_count}]`;
		this.running = e.type !== "end";
		this.count(this.running ? "[*]" : this.started);
		this.outputs.show(e);
		return true;
	}
	private started = "[ ]";

	lastSeq(): number {
		return this.events.reduce((last, e) => ("seq" in e ? Math.max(last, e.seq) : last), 0);
	}

	/** nbformat 4.5 */
	toJSON(): object {
		const lines = (s: string) => s.split(/(?<=\n)/);
		const outputs: object[] = [];
		let count: number | null = null;
		for (const e of this.events) {
			const last = outputs.at(-1) as { output_type: string; name?: string; text: string[] } | undefined;
			if (e.type === "started") count = e.execution_count;
			if (e.type === "stdout" || e.type === "stderr") {
				if (last?.output_type === "stream" && last.name === e.type) last.text = lines(last.text.join("") + e.text);
				else outputs.push({ output_type: "stream", name: e.type, text: lines(e.text) });
			}
			if (e.type === "result") outputs.push({ output_type: "execute_result", execution_count: count, data: e.data, metadata: {} });
			if (e.type === "display") outputs.push({ output_type: "display_data", data: e.data, metadata: {} });
			if (e.type === "error") outputs.push({ output_type: "error", ename: e.name, evalue: e.value, traceback: [e.traceback].flat() });
		}
		return { cell_type: "code", id: crypto.randomUUID().slice(0, 8), metadata: {}, execution_count: count, source: lines(this.editor.value), outputs };
	}
}

export class Notebook {
	cells: Cell[] = [];

	constructor(private readonly place: HTMLElement) {
		const saved = JSON.parse(localStorage.getItem(SAVED) ?? "[]") as Saved[];
		for (const s of saved.length ? saved : [{ source: "" }]) this.add(s);
		place.addEventListener("input", () => this.save());
	}

	add(saved: Saved): Cell {
		const cell = new Cell(saved);
		this.cells.push(cell);
		this.place.append(cell.root);
		cell.fit();
		return cell;
	}

	after(cell: Cell): Cell {
		return this.cells[this.cells.indexOf(cell) + 1] ?? this.add({ source: "" });
	}

	save(): void {
		localStorage.setItem(SAVED, JSON.stringify(this.cells.map((c) => ({ source: c.editor.value, xid: c.xid }))));
	}

	ipynb(): string {
		const metadata = { kernelspec: { name: "python3", display_name: "Python 3", language: "python" }, language_info: { name: "python" } };
		const cells = this.cells.filter((c) => c.editor.value.trim());
		return JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata, cells }, null, 1);
	}
}
