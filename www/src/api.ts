// The REST face (/v1) as the page needs it.

export interface Sandbox {
	id: string;
	state: string;
	engine: string;
	deadline: string;
	end_reason?: string;
}

export interface Entry {
	name: string;
	type: string;
	size: number;
}

export type Bundle = Record<string, unknown>;

export type Event =
	| { type: "queued"; seq: number; execution_id: string; position: number }
	| { type: "started"; seq: number; execution_id: string; execution_count: number; kernel_restarted?: boolean }
	| { type: "stdout" | "stderr"; seq: number; text: string }
	| { type: "result" | "display"; seq: number; data: Bundle; display_id?: string }
	| { type: "error"; seq: number; name: string; value: string; traceback: string[] | string }
	| { type: "truncated"; bytes_total: number; bytes_kept: number }
	| { type: "end"; seq: number; status: string; reason?: string; exit_code?: number; signal?: string; duration_ms: number }
	| { type: "keepalive" };

/** What the appliance refused, in its own words. */
export class Refused extends Error {
	constructor(readonly status: number, readonly code: string, message: string) {
		super(message);
	}
}

export class Api {
	constructor(private readonly key: string) {}

	private async call(method: string, path: string, body?: BodyInit): Promise<Response> {
		const headers: Record<string, string> = { Authorization: `Bearer ${this.key}` };
		if (typeof body === "string") headers["Content-Type"] = "application/json";
		const answer = await fetch(path, { method, headers, body: body ?? null, cache: "no-store" });
		if (answer.ok) return answer;
		const error = (await answer.json().catch(() => ({}))) as { code?: string; message?: string };
		throw new Refused(answer.status, error.code ?? "", error.message ?? `${method} ${path} answered ${answer.status}`);
	}

	private async json<T>(method: string, path: string, body?: object): Promise<T> {
		return (await this.call(method, path, body && JSON.stringify(body))).json() as Promise<T>;
	}

	check = () => this.json("GET", "/v1/sandboxes?limit=1");
	create = (timeout_s: number) => this.json<Sandbox>("POST", "/v1/sandboxes", { timeout_s, metadata: { door: "page" } });
	sandbox = (id: string) => this.json<Sandbox>("GET", `/v1/sandboxes/${id}`);
	extend = (id: string, timeout_s: number) => this.json<Sandbox>("POST", `/v1/sandboxes/${id}/timeout`, { timeout_s });
	end = (id: string) => this.call("DELETE", `/v1/sandboxes/${id}`);
	interrupt = (xid: string) => this.call("POST", `/v1/executions/${xid}/interrupt`);
	files = (id: string) => this.json<{ entries: Entry[] }>("GET", `/v1/sandboxes/${id}/files/list?path=.&limit=1000`);
	upload = (id: string, file: File) => this.call("PUT", this.file(id, file.name), file);
	download = async (id: string, name: string) => (await this.call("GET", this.file(id, name))).blob();

	private file(id: string, name: string): string {
		return `/v1/sandboxes/${id}/files?path=${encodeURIComponent(name)}`;
	}

	execute(id: string, code: string): AsyncGenerator<Event> {
		return this.stream("POST", `/v1/sandboxes/${id}/execute`, { code });
	}

	/** The events of an execution from the one after `after` on, live until its end. */
	follow(xid: string, after: number): AsyncGenerator<Event> {
		return this.stream("GET", `/v1/executions/${xid}/stream?after=${after}`);
	}

	private async *stream(method: string, path: string, body?: object): AsyncGenerator<Event> {
		const answer = await this.call(method, path, body && JSON.stringify(body));
		const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
		let rest = "";
		for (;;) {
			const { done, value } = await reader.read();
			if (done) break;
			const lines = (rest + value).split("\n");
			rest = lines.pop() ?? "";
			for (const line of lines) if (line) yield JSON.parse(line) as Event;
		}
	}
}
