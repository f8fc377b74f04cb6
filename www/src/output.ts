// What a cell's events look like.

import type { Bundle, Event } from "./api";
import { Terminal } from "./terminal";

const HEIGHT_MAX = 600; // px of a result frame before it scrolls
const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/svg+xml"];

function element(tag: string, className = "", text = ""): HTMLElement {
	const e = document.createElement(tag);
	e.className = className;
	e.textContent = text;
	return e;
}

function image(mime: string, data: string): HTMLElement {
	const img = document.createElement("img");
	// As an image, SVG runs no script and loads nothing.
	const base64 = mime === "image/svg+xml" ? btoa(unescape(encodeURIComponent(data))) : data.replace(/\s/g, "");
	img.src = `data:${mime};base64,${base64}`;
	img.alt = "plot";
	return img;
}

function frame(html: string): HTMLElement {
	const f = document.createElement("iframe");
	f.setAttribute("sandbox", "allow-scripts");
	f.src = "frame.html";
	f.title = "HTML result";
	addEventListener("message", (e) => {
		if (e.source !== f.contentWindow) return;
		if (e.data?.ready) f.contentWindow!.postMessage({ html }, "*");
		const height = Number(e.data?.height);
		if (height > 0) f.style.height = `${Math.min(height, HEIGHT_MAX) + 2}px`;
	});
	return f;
}

function bundle(data: Bundle): HTMLElement {
	const mime = IMAGES.find((m) => typeof data[m] === "string");
	if (mime) return image(mime, data[mime] as string);
	if (typeof data["text/html"] === "string") return frame(data["text/html"]);
	const pre = element("pre");
	new Terminal(pre).write(String(data["text/plain"] ?? JSON.stringify(data)));
	return pre;
}

/** Renders events of one execution into a place, in order. */
export class Outputs {
	private stream?: { kind: string; terminal: Terminal };
	private readonly displays = new Map<string, HTMLElement>();

	constructor(private readonly place: HTMLElement) {
		place.replaceChildren();
	}

	show(e: Event): void {
		if (e.type === "stdout" || e.type === "stderr") return this.text(e.type, e.text);
		if (e.type === "keepalive" || e.type === "queued") return;
		if (e.type === "result" || e.type === "display") this.display(e.data, e.display_id);
		if (e.type === "error") this.text("error", [e.traceback].flat().join("\n") || `${e.name}: ${e.value}`);
		if (e.type === "started" && e.kernel_restarted) this.note("The kernel was started anew: earlier variables are gone.");
		if (e.type === "truncated") this.note(`${e.bytes_total.toLocaleString()} bytes in all; the store keeps ${e.bytes_kept.toLocaleString()}.`);
		if (e.type === "end" && e.status !== "ok" && e.status !== "error") {
			this.note([e.status, e.reason, e.signal, e.exit_code === undefined ? "" : `exit code ${e.exit_code}`].filter(Boolean).join(", "));
		}
		this.stream = undefined;
	}

	note(text: string): void {
		this.place.append(element("div", "note", text));
	}

	private text(kind: string, text: string): void {
		if (this.stream?.kind !== kind) {
			const pre = element("pre", kind);
			this.place.append(pre);
			this.stream = { kind, terminal: new Terminal(pre) };
		}
		this.stream.terminal.write(text);
	}

	private display(data: Bundle, id?: string): void {
		const shown = bundle(data);
		const old = id && this.displays.get(id);
		if (old) old.replaceWith(shown);
		else this.place.append(shown);
		if (id) this.displays.set(id, shown);
	}
}
