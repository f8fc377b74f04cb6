// The REST face (/v1) as the page needs it.

export type Sandbox = { id: string; state: string; engine: string; deadline: string; end_reason?: string };
export type Bundle = Record<string, unknown>;
export type Event =
	| { type: "queued" | "started"; seq: number; execution_id: string; execution_count?: number; kernel_restarted?: boolean }
	| { type: "stdout" | "stderr"; seq: number; text: string }
	| { type: "result" | "display"; seq: number; data: Bundle; display_id?: string; full?: string }
	| { type: "error"; seq: number; name: string; value: string; traceback: string[] }
	| { type: "truncated"; seq?: number; stream: string }
	| { type: "end"; seq: number; status: string; reason?: string; exit_code?: number; signal?: string; duration_ms: number }
	| { type: "keepalive"; seq?: undefined };

export class Api {
	constructor(private readonly key: string) {}

	/** What the appliance refuses is thrown in its own words, with the status. */
	private async call(method: string, path: string, body?: BodyInit): Promise<Response> {
		const headers: Record<string, string> = { Authorization: `Bearer ${this.key}` };
		if (typeof body === "string") headers["Content-Type"] = "application/json";
		const answer = await fetch(path, { method, headers, body: body ?? null, cache: "no-store" }).catch(() => {
			throw new Error("The appliance does not answer. Is it running, and is the network up?");
		});
		if (answer.ok) return answer;
		const { message } = (await answer.json().catch(() => ({}))) as { message?: string };
		throw Object.assign(new Error(message ?? `${method} ${path} answered ${answer.status}.`), { status: answer.status });
	}

	private async json<T>(method: string, path: string, body?: object): Promise<T> {
		return (await this.call(method, path, body && JSON.stringify(body))).json() as Promise<T>;
	}

	check = () => this.json("GET", "/v1/sandboxes?limit=1");
	create = (timeout_s: number) => this.json<Sandbox>("POST", "/v1/sandboxes", { timeout_s, metadata: { door: "page" } });
	sandbox = (id: string) => this.json<Sandbox>("GET", `/v1/sandboxes/${id}`).catch((e) => (e.status === 404 ? undefined : Promise.reject(e)));
	extend = (id: string, timeout_s: number) => this.json<Sandbox>("POST", `/v1/sandboxes/${id}/timeout`, { timeout_s });
	end = (id: string) => this.call("DELETE", `/v1/sandboxes/${id}`);
	interrupt = (xid: string) => this.call("POST", `/v1/executions/${xid}/interrupt`);
	files = (id: string) => this.json<{ entries: { name: string; type: string; size: number }[] }>("GET", `/v1/sandboxes/${id}/files/list?limit=1000`);
	file = (id: string, name: string) => `/v1/sandboxes/${id}/files?path=${encodeURIComponent(name)}`;
	upload = (id: string, file: File) => this.call("PUT", this.file(id, file.name), file);
	bytes = async (path: string) => (await this.call("GET", path)).blob();
	execute = (id: string, code: string) => this.stream("POST", `/v1/sandboxes/${id}/execute`, { code });
	/** The events of an execution from the one after `after` on, live until its end. */
	follow = (xid: string, after: number) => this.stream("GET", `/v1/executions/${xid}/stream?after=${after}`);

	/** All that an execution wrote to a stream, as far as it is stored. */
	async whole(xid: string, kind: string): Promise<Blob> {
		const { outputs } = await this.json<{ outputs: { n: number; kind: string }[] }>("GET", `/v1/executions/${xid}`);
		const parts = outputs.filter((o) => o.kind === kind).map((o) => this.bytes(`/v1/executions/${xid}/outputs/${o.n}/full`));
		return new Blob(await Promise.all(parts));
	}

	private async *stream(method: string, path: string, body?: object): AsyncGenerator<Event> {
		const answer = await this.call(method, path, body && JSON.stringify(body));
		const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
		for (let rest = "", part = await reader.read(); !part.done; part = await reader.read()) {
			const lines = (rest + part.value).split("\n");
			rest = lines.pop()!;
			for (const line of lines) if (line) yield this.complete(JSON.parse(line) as Event);
			const { port1, port2 } = new MessageChannel(); // lets clicks and drawing in between, also where timers are slow
			await new Promise((next) => (port1.onmessage = next) && port2.postMessage(0));
		}
	}

	/** A result too large for an event comes without its largest form: that one is fetched, once it is stored. */
	private async complete(e: Event, tries = 50): Promise<Event> {
		if ((e.type !== "result" && e.type !== "display") || !e.full) return e;
		const blob = await this.bytes(e.full).catch((fault: Error) => void (e.data["text/plain"] ??= fault.message));
		if (!blob && tries) return new Promise((r) => setTimeout(r, 200)).then(() => this.complete(e, tries - 1));
		if (!blob) return e;
		const bytes = new Uint8Array(await blob.arrayBuffer());
		const base64 = () => btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join(""));
		e.data[blob.type.split(";")[0]!] = /^image\/(?!svg)/.test(blob.type) ? base64() : await blob.text();
		return e;
	}
}
