// The page: login, one sandbox, cells that run in order.
import { Api, type Event, type Sandbox } from "./api";
import { Notebook, SAVED, type Cell } from "./notebook";
import { action, element } from "./output";

const TIMEOUT_S = 3600;
const STATUS_MS = 30_000; // between two looks at the sandbox's state
const RETRY_MS = 1000; // between two tries to reach a restarting appliance
const KEY = "carrel.key"; // in this browser's storage
const SANDBOX = "carrel.sandbox";

const $ = <T extends HTMLElement = HTMLButtonElement>(id: string) => document.getElementById(id) as T;
let api: Api;
let notebook: Notebook | undefined;
let sandbox: Sandbox | undefined;
let queue: Promise<unknown> = Promise.resolve(); // cells run one after the other
let failures = 0; // of cells; those that were waiting at a failure do not run

function say(text: string, error = false): void {
	$("notice").hidden = !text;
	$("notice").className = error ? "error" : "";
	$("told").textContent = text;
}

function failed(e: Error & { status?: number }): void {
	if (e.status === 401) login("That key is not known here, or was revoked.");
	else say(e.message, true);
	document.body.className ||= "out";
}

/** An event handler whose failure is told. */
const told = (f: () => unknown) => async () => Promise.resolve().then(f).catch(failed);
const running = () => notebook?.cells.find((c) => c.status === "running" && c.xid);
const live = () => sandbox !== undefined && sandbox.state !== "ended";

function show(text = ""): void {
	const minutes = Math.floor((Date.parse(sandbox?.deadline ?? "") - Date.now()) / 60_000);
	const left = `${sandbox?.engine} · ends in ${minutes < 1 ? "under a minute" : `${minutes} min`}`;
	$("status").textContent = text || (live() ? left : sandbox ? `sandbox ended: ${sandbox.end_reason}` : "no sandbox yet");
	$("status").className = text || live() ? "live" : "";
	$("status").title = sandbox?.id ?? "The first cell starts one";
	$("interrupt").disabled = !running();
	$("extend").disabled = $("end").disabled = !live();
}

async function remember(answer: Promise<Sandbox | undefined>): Promise<void> {
	localStorage.setItem(SANDBOX, (sandbox = await answer)?.id ?? "");
	show();
}

async function liveSandbox(): Promise<Sandbox> {
	const old = sandbox;
	if (old) await remember(api.sandbox(old.id));
	if (sandbox && live()) return sandbox;
	show("starting a sandbox…");
	await remember(api.create(TIMEOUT_S)).finally(show);
	if (old) say("The earlier sandbox has ended. This is a new one, without its variables and files.");
	return sandbox!;
}

/** Feeds a stream to its cell; a connection lost on the way is taken up again where it broke. */
async function follow(cell: Cell, stream: AsyncGenerator<Event>): Promise<void> {
	for (;;) {
		try {
			for await (const e of stream) {
				cell.take(e);
				if (e.type === "queued" || e.type === "started") notebook!.save();
				show();
			}
		} catch (e) {
			if (!cell.xid || (e as { status?: number }).status! < 500) throw e;
		}
		if (!cell.xid) throw new Error("The appliance closed the connection before the cell started.");
		if (cell.lastSeq && !cell.busy()) return;
		show("connection lost, trying again…");
		await new Promise((r) => setTimeout(r, RETRY_MS));
		stream = api.follow(cell.xid, cell.lastSeq);
	}
}

function run(cell: Cell): void {
	if (cell.busy() || !cell.editor.value.trim()) return;
	const code = cell.editor.value;
	const before = failures;
	cell.clear("waiting");
	notebook!.save();
	queue = queue.then(async () => {
		if (failures !== before) return cell.mark("", "Not run: an earlier cell did not end well.");
		say("");
		try {
			await follow(cell, api.execute((await liveSandbox()).id, code));
		} catch (e) {
			cell.mark("failed", "This cell did not run to its end.");
			failed(e as Error);
			show();
		}
		if (cell.status !== "ok") failures++;
		if ($<HTMLDetailsElement>("files").open) await told(listFiles)();
	});
}

function remove(cell: Cell): void {
	if (cell.busy()) return say("This cell is running or waits to run: interrupt it first.");
	if (cell.editor.value.trim() && !confirm("Remove this cell and its outputs?")) return;
	notebook!.after(cell).editor.focus();
	notebook!.remove(cell);
}

let tabLeaves = false; // after Escape, Tab moves on as everywhere else
function keys(e: KeyboardEvent): void {
	const cell = notebook!.cells.find((c) => c.editor === e.target);
	if (!cell || e.isComposing) return;
	const runs = e.key === "Enter" && (e.shiftKey || e.ctrlKey || e.metaKey);
	const line = cell.editor.value.slice(0, cell.editor.selectionStart).split("\n").at(-1)!;
	const newline = `\n${/^\s*/.exec(line)![0]}${line.endsWith(":") ? "    " : ""}`;
	const text = e.key === "Tab" && !e.shiftKey && !tabLeaves ? "    " : e.key === "Enter" && !runs ? newline : "";
	if (e.key !== "Shift") tabLeaves = e.key === "Escape";
	if (text || runs) e.preventDefault();
	if (text) document.execCommand("insertText", false, text); // the one way that keeps the undo history
	if (runs) run(cell);
	if (runs && e.shiftKey) notebook!.after(cell).editor.focus();
}

function save(download: string, blob: Blob): void {
	const href = URL.createObjectURL(blob);
	Object.assign(element("a"), { href, download }).click();
	setTimeout(() => URL.revokeObjectURL(href), 60_000); // the browser reads it after the click
}

async function listFiles(): Promise<void> {
	const entries = live() ? (await api.files(sandbox!.id)).entries : [];
	const items = entries.filter((e) => e.type === "file" && !e.name.startsWith(".")).map(({ name, size }) => {
		const item = element("li", "", ` ${size.toLocaleString()} bytes`);
		item.prepend(action(name, "Download", told(async () => save(name, await api.bytes(api.file(sandbox!.id, name))))));
		return item;
	});
	const none = live() ? "No files yet." : "No sandbox yet: an upload starts one.";
	$("list").replaceChildren(...(items.length ? items : [none]));
}

async function upload(input: HTMLInputElement): Promise<void> {
	const files = [...input.files!];
	input.value = ""; // the same file may be chosen again
	const { id } = await liveSandbox();
	for (const file of files) {
		show(`uploading ${file.name}…`);
		await api.upload(id, file).finally(show);
	}
	await listFiles();
}

function login(why = ""): void {
	localStorage.removeItem(KEY);
	say(why, true);
	document.body.className = "out";
	$("key").focus();
}

async function open(key: string): Promise<void> {
	api = new Api(key);
	await api.check();
	localStorage.setItem(KEY, key);
	say("");
	document.body.className = "in";
	const id = localStorage.getItem(SANDBOX);
	await remember(id ? api.sandbox(id) : Promise.resolve(undefined));
	if (notebook) return;
	const whole = (cell: Cell, kind: string) => void told(async () => save(`${kind}.txt`, await api.whole(cell.xid!, kind)))();
	notebook = new Notebook($("cells"), { run, remove, whole });
	notebook.cells.at(-1)!.editor.focus();
	for (const cell of notebook.cells.filter((c) => c.xid)) // what ran, and what still runs, is asked from the appliance
		follow(cell, api.follow(cell.xid!, 0)).catch((e) => cell.mark("", e.status === 404 ? "Its outputs are no longer stored." : e.message));
}

/** The address that `make run` prints carries the key; it must not stay there. */
function enter(): void {
	const key = /^#token=(.+)$/.exec(location.hash)?.[1] ?? localStorage.getItem(KEY);
	history.replaceState(null, "", location.pathname);
	if (key) void told(() => open(key))();
	else login();
}

$("login").onsubmit = (e) => {
	e.preventDefault();
	void told(() => open($<HTMLInputElement>("key").value.trim()))();
};
$("cells").onkeydown = keys;
$("cells").oninput = (e) => {
	notebook!.cells.find((c) => c.editor === e.target)?.fit();
	notebook!.save();
};
$("add").onclick = () => notebook!.add().editor.focus();
$("interrupt").onclick = told(() => running() && api.interrupt(running()!.xid!));
$("extend").onclick = told(() => remember(api.extend(sandbox!.id, TIMEOUT_S)));
const end = (id: string) => remember(api.end(id).then(() => api.sandbox(id)));
$("end").onclick = told(() => confirm("End the sandbox? Its variables and files go with it; the cells stay.") && end(sandbox!.id));
$<HTMLDetailsElement>("files").ontoggle = told(listFiles);
$("upload").onchange = told(() => upload($("upload")));
$("download").onclick = () => save("notebook.ipynb", new Blob([notebook!.ipynb()], { type: "application/x-ipynb+json" }));
$("logout").onclick = () => login();
$("dismiss").onclick = () => say("");
setInterval(() => void (live() && !document.hidden && told(() => remember(api.sandbox(sandbox!.id)))()), STATUS_MS);
addEventListener("hashchange", enter);
addEventListener("storage", (e) => e.key === SAVED && say("The cells were changed in another tab; reload to see them here.", true));
addEventListener("error", (e) => say(e.message, true));
enter();
