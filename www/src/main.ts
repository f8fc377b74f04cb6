// The page: login, one sandbox, cells.

import { Api, Refused, type Event, type Sandbox } from "./api";
import { Notebook, type Cell } from "./notebook";

const TIMEOUT_S = 3600;
const RETRY_MS = 1000; // between two tries to reach a restarting appliance
const KEY = "carrel.key";
const SANDBOX = "carrel.sandbox";

const $ = <T extends HTMLElement = HTMLElement>(id: string) => document.getElementById(id) as T;
const button = (id: string) => $<HTMLButtonElement>(id);

let api: Api;
let notebook: Notebook;
let sandbox: Sandbox | undefined;
let running: Cell | undefined;
let queue: Promise<void> = Promise.resolve();

function notice(text: string): void {
	$("notice").textContent = text;
	$("notice").hidden = !text;
}

function failed(e: unknown): void {
	if (e instanceof Refused && e.status === 401) return login("That key is not known here, or was revoked.");
	notice(e instanceof Error ? e.message : String(e));
}

/** An event handler whose failure is told. */
const told = (f: () => Promise<unknown>) => () => void f().catch(failed);

function status(): void {
	const left = sandbox ? Math.max(0, (Date.parse(sandbox.deadline) - Date.now()) / 60000) : 0;
	$("status").textContent = !sandbox
		? "no sandbox yet: the first cell starts one"
		: sandbox.state === "ended"
			? `ended: ${sandbox.end_reason}`
			: `${sandbox.id} · ${sandbox.engine} · ends in ${left < 1 ? "under a minute" : `${Math.floor(left)} min`}`;
	const live = sandbox !== undefined && sandbox.state !== "ended";
	button("interrupt").disabled = !running;
	button("extend").disabled = button("end").disabled = !live;
}

function remember(s: Sandbox | undefined): void {
	sandbox = s;
	if (s) localStorage.setItem(SANDBOX, s.id);
	else localStorage.removeItem(SANDBOX);
	status();
}

async function liveSandbox(): Promise<Sandbox> {
	if (sandbox) remember(await api.sandbox(sandbox.id).catch(() => undefined));
	if (!sandbox || sandbox.state === "ended") {
		$("status").textContent = "starting a sandbox…";
		remember(await api.create(TIMEOUT_S));
	}
	return sandbox!;
}

/** Feeds a stream to its cell; a connection lost on the way is taken up again where it broke. */
async function follow(cell: Cell, stream: AsyncGenerator<Event>): Promise<void> {
	running = cell;
	status();
	try {
		for (;;) {
			try {
				for await (const e of stream) if (cell.take(e)) notebook.save();
			} catch (e) {
				if (e instanceof Refused && e.status < 500) throw e;
				if (!cell.xid) throw e;
			}
			if (cell.events.at(-1)?.type === "end") return;
			cell.count("[…]");
			await new Promise((r) => setTimeout(r, RETRY_MS));
			stream = api.follow(cell.xid!, cell.lastSeq());
		}
	} finally {
		running = undefined;
		status();
	}
}

function run(cell: Cell): void {
	cell.clear();
	cell.xid = undefined;
	cell.running = true;
	cell.count("[*]");
	queue = queue
		.then(async () => {
			notice("");
			const s = await liveSandbox();
			await follow(cell, api.execute(s.id, cell.editor.value));
		})
		.catch((e) => {
			cell.running = false;
			cell.count("[!]");
			failed(e);
		})
		.then(() => ($("panel").hidden ? undefined : listFiles().catch(failed)));
}

function keys(e: KeyboardEvent): void {
	const cell = notebook.cells.find((c) => c.editor === e.target);
	if (!cell) return;
	if (e.key === "Enter" && (e.shiftKey || e.ctrlKey)) {
		e.preventDefault();
		run(cell);
		if (e.shiftKey) notebook.after(cell).editor.focus();
	}
	if (e.key === "Tab" && !e.shiftKey) {
		e.preventDefault();
		document.execCommand("insertText", false, "    "); // keeps the editor's undo history
	}
}

function save(name: string, blob: Blob): void {
	const a = document.createElement("a");
	a.href = URL.createObjectURL(blob);
	a.download = name;
	a.click();
	URL.revokeObjectURL(a.href);
}

async function listFiles(): Promise<void> {
	const s = await liveSandbox();
	const { entries } = await api.files(s.id);
	$("list").replaceChildren(
		...entries
			.filter((e) => e.type === "file" && !e.name.startsWith("."))
			.map((e) => {
				const item = document.createElement("li");
				const link = document.createElement("a");
				link.href = "#";
				link.textContent = `${e.name} (${e.size.toLocaleString()} bytes)`;
				link.onclick = told(async () => save(e.name, await api.download(s.id, e.name)));
				item.append(link);
				return item;
			}),
	);
}

async function upload(): Promise<void> {
	const s = await liveSandbox();
	for (const file of $<HTMLInputElement>("upload").files ?? []) await api.upload(s.id, file);
	$<HTMLInputElement>("upload").value = "";
	await listFiles();
}

/** After a reload: what ran, and what still runs, is asked from the appliance. */
async function restore(): Promise<void> {
	const id = localStorage.getItem(SANDBOX);
	if (id) remember(await api.sandbox(id).catch(() => undefined));
	for (const cell of notebook.cells) {
		if (!cell.xid) continue;
		await follow(cell, api.follow(cell.xid, 0)).catch(() => cell.outputs.note("Its outputs are no longer stored."));
	}
}

function login(why = ""): void {
	localStorage.removeItem(KEY);
	notice(why);
	$("login").hidden = false;
	$("notebook").hidden = true;
}

async function open(key: string): Promise<void> {
	api = new Api(key);
	await api.check();
	localStorage.setItem(KEY, key);
	notice("");
	$("login").hidden = true;
	$("notebook").hidden = false;
	notebook ??= new Notebook($("cells"));
	status();
	queue = restore().catch(failed);
}

function wire(): void {
	$("login").onsubmit = (e) => {
		e.preventDefault();
		void open($<HTMLInputElement>("key").value.trim()).catch(failed);
	};
	$("cells").addEventListener("keydown", keys);
	button("add").onclick = () => notebook.add({ source: "" }).editor.focus();
	button("interrupt").onclick = told(async () => running?.xid && api.interrupt(running.xid));
	button("extend").onclick = told(async () => sandbox && remember(await api.extend(sandbox.id, TIMEOUT_S)));
	button("end").onclick = told(async () => {
		if (!sandbox) return;
		await api.end(sandbox.id);
		remember(await api.sandbox(sandbox.id));
	});
	button("files").onclick = told(async () => {
		$("panel").hidden = !$("panel").hidden;
		if (!$("panel").hidden) await listFiles();
	});
	$("upload").onchange = told(upload);
	button("download").onclick = () => save("notebook.ipynb", new Blob([notebook.ipynb()], { type: "application/x-ipynb+json" }));
	button("logout").onclick = () => login();
	setInterval(status, 30_000);
}

wire();
const token = /^#token=(.+)$/.exec(location.hash)?.[1];
if (token) history.replaceState(null, "", location.pathname);
const key = token ?? localStorage.getItem(KEY);
if (key) open(key).catch(failed);
else login();
