// Cells: their text, their outputs, how they survive a reload and leave as .ipynb.
import type { Bundle, Event } from "./api";
import { action, element, Outputs } from "./output";

export const SAVED = "carrel.cells";
const TEXT_MAX = 1_000_000; // characters of one stream output that are kept for the .ipynb

type Saved = { id: string; source: string; xid?: string };
type Output = { output_type: string; name?: string; text?: string; data?: Bundle; metadata?: { display_id?: string } };
/** What cells ask of the page. */
export type Desk = Record<"run" | "remove", (cell: Cell) => void> & { whole(cell: Cell, kind: string): void };

export class Cell {
	readonly root = element("section", "cell");
	readonly editor = Object.assign(element("textarea"), { spellcheck: false, wrap: "off", placeholder: "Python", ariaLabel: "Code" });
	readonly id: string;
	xid: string | undefined;
	status = ""; // "", waiting, running, or what the execution's end says
	lastSeq = 0;
	private number: number | null = null;
	private readonly counter = element("span", "count");
	private readonly place = element("div", "outputs");
	private shown!: Outputs;
	private outputs: Output[] = [];

	constructor(saved: Partial<Saved>, private readonly desk: Desk) {
		this.id = saved.id ?? crypto.getRandomValues(new Uint32Array(1))[0]!.toString(16).padStart(8, "0");
		this.editor.value = saved.source ?? "";
		const gutter = element("div", "gutter");
		gutter.append(action("▶", "Run this cell (Shift+Enter)", () => desk.run(this), "run"), this.counter);
		this.root.append(gutter, this.editor, action("×", "Remove this cell", () => desk.remove(this), "remove"), this.place);
		this.clear();
		this.xid = saved.xid;
		this.fit();
	}

	busy = () => this.status === "waiting" || this.status === "running";
	fit = () => void (this.editor.rows = this.editor.value.split("\n").length);

	mark(status: string, note = ""): void {
		this.status = status;
		this.root.classList.toggle("busy", this.busy());
		this.counter.textContent = this.busy() ? "[*]" : `[${this.number ?? " "}]`;
		if (note) this.shown.note(note);
	}

	clear(status = ""): void {
		this.shown = new Outputs(this.place, (kind) => this.desk.whole(this, kind));
		this.outputs = [];
		this.xid = undefined;
		this.number = null;
		this.lastSeq = 0;
		this.mark(status);
	}

	/** One event of the cell's execution, shown and kept for the .ipynb; one seen before changes nothing. */
	take(e: Event): void {
		if (e.seq !== undefined && e.seq <= this.lastSeq) return;
		this.lastSeq = e.seq ?? this.lastSeq;
		if (e.type === "queued" || e.type === "started") this.xid = e.execution_id;
		if (e.type === "started") this.number = e.execution_count ?? null;
		if (e.type === "end") this.counter.title = `took ${(e.duration_ms / 1000).toFixed(1)} s`;
		this.mark(e.type === "end" ? e.status : "running");
		this.shown.show(e);
		const last = this.outputs.at(-1);
		const push = (output_type: string, fields: object) => this.outputs.push({ output_type, ...fields });
		if (e.type === "stdout" || e.type === "stderr") {
			if (last?.name !== e.type) push("stream", { name: e.type, text: e.text });
			else if (last.text!.length < TEXT_MAX) last.text += e.text;
			else if (!last.text!.endsWith("…")) last.text += "\n…";
		}
		if (e.type === "result") push("execute_result", { execution_count: this.number, data: e.data, metadata: {} });
		if (e.type === "error") push("error", { ename: e.name, evalue: e.value, traceback: e.traceback });
		if (e.type === "display") {
			const old = this.outputs.find((o) => e.display_id && o.metadata?.display_id === e.display_id);
			if (old) old.data = e.data;
			else push("display_data", { data: e.data, metadata: e.display_id ? { display_id: e.display_id } : {} });
		}
	}

	/** A code cell of nbformat 4.5 */
	ipynb(): object {
		const { id, number: execution_count, outputs, editor } = this;
		return { cell_type: "code", id, metadata: {}, execution_count, source: editor.value, outputs };
	}
}

export class Notebook {
	readonly cells: Cell[] = [];

	constructor(private readonly place: HTMLElement, private readonly desk: Desk) {
		for (const saved of JSON.parse(localStorage.getItem(SAVED) ?? "[{}]") as Saved[]) this.add(saved);
	}

	add(saved: Partial<Saved> = {}): Cell {
		const cell = new Cell(saved, this.desk);
		this.cells.push(cell);
		this.place.append(cell.root);
		return cell;
	}

	remove(cell: Cell): void {
		this.cells.splice(this.cells.indexOf(cell), 1);
		cell.root.remove();
		this.save();
	}

	after = (cell: Cell) => this.cells[this.cells.indexOf(cell) + 1] ?? this.add();

	save(): void {
		localStorage.setItem(SAVED, JSON.stringify(this.cells.map(({ id, editor, xid }) => ({ id, source: editor.value, xid }))));
	}

	ipynb(): string {
		const metadata = { kernelspec: { name: "python3", display_name: "Python 3", language: "python" }, language_info: { name: "python" } };
		const cells = this.cells.filter((c) => c.editor.value.trim()).map((c) => c.ipynb());
		return JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata, cells }, null, 1);
	}
}
