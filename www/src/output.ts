// What a cell's events look like.
import type { Bundle, Event } from "./api";
import { Terminal } from "./terminal";

const HEIGHT_MAX = 600; // px of a result's frame before it scrolls
const BLOCKS_MAX = 200; // outputs shown of one cell: each may be a frame or an image
const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/svg+xml"];

export function element<K extends keyof HTMLElementTagNameMap>(tag: K, className = "", textContent = ""): HTMLElementTagNameMap[K] {
	return Object.assign(document.createElement(tag), { className, textContent });
}

export function action(text: string, title: string, onclick: () => void, className = "link"): HTMLButtonElement {
	return Object.assign(element("button", className, text), { type: "button", title, onclick });
}

const results = new WeakMap<HTMLIFrameElement, string>();

function frame(html: string): HTMLElement {
	const f = Object.assign(element("iframe"), { src: "frame.html", title: "HTML result" });
	f.setAttribute("sandbox", "allow-scripts");
	results.set(f, html);
	let loads = 0;
	f.onload = () => ++loads > 1 && f.replaceWith(element("div", "note", "A result that left for another address was removed."));
	return f;
}

addEventListener("message", (e) => {
	const f = [...document.querySelectorAll("iframe")].find((f) => f.contentWindow === e.source);
	if (f && e.data?.ready) f.contentWindow!.postMessage({ html: results.get(f) }, "*"); // an opaque origin has no name
	if (f && e.data?.height > 0) f.style.height = `${Math.min(Number(e.data.height), HEIGHT_MAX)}px`;
});

/** Renders events of one execution into a place, in order. */
export class Outputs {
	private stream: { kind: string; terminal: Terminal } | undefined;
	private readonly displays = new Map<string, HTMLElement>();
	private blocks = 0;

	/** whole saves everything that was written to a stream. */
	constructor(private readonly place: HTMLElement, private readonly whole: (stream: string) => void) {
		place.replaceChildren();
	}

	show(e: Event): void {
		if (e.type === "stdout" || e.type === "stderr") return this.text(e.type, e.text);
		if (e.type === "keepalive" || e.type === "queued") return;
		this.stream?.terminal.draw();
		this.stream = undefined;
		if (e.type === "result" || e.type === "display") this.add(this.bundle(e.data), e.display_id);
		if (e.type === "error") this.text("error", e.traceback.join("\n") || `${e.name}: ${e.value}`);
		if (e.type === "started" && e.kernel_restarted) this.note("The kernel was started anew: earlier variables are gone.");
		if (e.type === "truncated" && e.stream === "events") this.note("A part is missing here: it was too much to keep. ", "stdout");
		if (e.type === "end" && e.status !== "ok" && e.status !== "error") {
			const code = e.exit_code === undefined ? "" : `exit code ${e.exit_code}`;
			this.note([e.status, e.reason, e.signal, code].filter(Boolean).join(", "));
		}
	}

	/** With a stream's name, the note offers to save the whole of it. */
	note(text: string, stream = ""): void {
		const note = element("div", "note", text);
		if (stream.startsWith("std")) note.append(action(`Save all of ${stream}`, "As a text file", () => this.whole(stream)));
		this.place.append(note);
	}

	private bundle(data: Bundle): HTMLElement {
		const plain = String(data["text/plain"] ?? JSON.stringify(data));
		const mime = IMAGES.find((m) => typeof data[m] === "string");
		const src = mime && `data:${mime}${mime.includes("svg") ? `,${encodeURIComponent(String(data[mime]))}` : `;base64,${data[mime]}`}`;
		if (src) return Object.assign(element("img"), { src, alt: plain.slice(0, 200) }); // SVG as an image runs no script
		if (typeof data["text/html"] === "string") return frame(data["text/html"]);
		return this.terminal("result", plain);
	}

	private terminal(kind: string, text: string): HTMLElement {
		const pre = Object.assign(element("pre", kind), { tabIndex: 0 }); // scrolls by keyboard
		const terminal = new Terminal(pre, () => this.note("Only the last lines are shown. ", kind));
		terminal.write(text);
		this.stream?.terminal.draw();
		this.stream = { kind, terminal };
		return pre;
	}

	private text(kind: string, text: string): void {
		if (this.stream?.kind === kind) this.stream.terminal.write(text);
		else this.add(this.terminal(kind, text));
	}

	private add(block: HTMLElement, id?: string): void {
		const old = id && this.displays.get(id);
		if (old) old.replaceWith(block);
		else if (++this.blocks <= BLOCKS_MAX) this.place.append(block);
		else if (this.blocks === BLOCKS_MAX + 1) this.note("Further outputs are stored, but not shown here.");
		if (id) this.displays.set(id, block);
	}
}
