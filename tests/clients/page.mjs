// The page in a real browser, against the appliance that CARREL_URL and
// CARREL_TOKEN name: from login to a plot, over a reload, and under outputs that
// mean harm. tests/integration/page_browser.py starts it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const { CARREL_URL: url, CARREL_TOKEN: token, CHROMIUM, SCREENSHOTS } = process.env;
const CELL_MS = 120_000; // a loaded machine without KVM
const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
	"--disable-background-networking", "--disable-component-update", "--disable-sync"];

const browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
const context = await browser.newContext({ viewport: { width: 1100, height: 800 }, acceptDownloads: true });
const page = await context.newPage();
page.setDefaultTimeout(30_000);
const faults = []; // of the page's own script
page.on("pageerror", (e) => faults.push(e.message));
page.on("dialog", (d) => d.accept());

const shot = async (name) => SCREENSHOTS && page.screenshot({ path: `${SCREENSHOTS}/${name}.png` });
const cell = (i) => page.locator(".cell").nth(i);
const key = () => page.evaluate(() => localStorage.getItem("carrel.key"));

async function type(code) {
	const editor = page.locator(".cell textarea").last();
	await editor.fill(code);
	await editor.press("Shift+Enter");
	return (await page.locator(".cell").count()) - 2; // running it from the last cell adds one
}

/** Runs code in the last cell; gives that cell once it has ended. */
async function run(code) {
	const i = await type(code);
	await page.waitForFunction((i) => !document.querySelectorAll(".cell")[i].classList.contains("busy"), i, { timeout: CELL_MS });
	return cell(i);
}

async function saved(click) {
	const [download] = await Promise.all([page.waitForEvent("download"), click()]);
	return { name: download.suggestedFilename(), bytes: readFileSync(await download.path()) };
}

const frameOf = async (c) => (await (await c.locator("iframe").last().elementHandle()).contentFrame());

async function login() {
	await page.goto(url);
	await page.locator("#key").fill("e2b_" + "0".repeat(40));
	await page.getByRole("button", { name: "Log in" }).click();
	await page.getByText("That key is not known here").waitFor();
	assert.equal(await key(), null);

	await page.goto(`${url}/#token=${token}`);
	await page.locator("main").waitFor();
	assert.equal(page.url(), `${url}/`, "the key left the address");
	assert.equal(await key(), token);
	assert.equal(await page.locator("#status").textContent(), "no sandbox yet");
	assert.ok(await page.locator(".cell textarea").evaluate((e) => e === document.activeElement), "one can type at once");
}

async function streams() {
	const c = await run(
		"import sys\nprint('\\x1b[31mred\\x1b[0m and \\x1b[1;38;5;28mgreen\\x1b[0m')\n" +
			"for i in range(11): print(f'\\rstep {i}', end='')\nprint()\nprint('careful', file=sys.stderr)",
	);
	assert.match(await c.locator("pre.stdout").textContent(), /^red and green\nstep 10\n$/);
	assert.equal(await c.locator(".f1").textContent(), "red");
	assert.equal(await c.locator(".f2.b").textContent(), "green");
	assert.equal(await c.locator("pre.stderr").textContent(), "careful\n");
	assert.equal(await c.locator(".count").textContent(), "[1]");
	assert.match(await page.locator("#status").textContent(), /^(kvm|tcg|jail) · ends in 5\d min$/);
}

async function results() {
	const table = await run("import numpy as np, pandas as pd\npd.DataFrame(np.arange(400).reshape(10, 40))");
	const frame = await frameOf(table);
	await frame.locator("td").first().waitFor();
	assert.equal(await frame.locator("tbody tr").count(), 10);
	const [inside, outside] = [await frame.evaluate(() => document.documentElement.scrollWidth - innerWidth),
		await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)];
	assert.ok(inside > 0 && outside <= 0, "a wide table scrolls inside its frame");
	const height = await table.locator("iframe").evaluate((f) => f.clientHeight);
	const content = await frame.evaluate(() => document.documentElement.scrollHeight - document.documentElement.clientHeight);
	assert.ok(height > 150 && content <= 0, "and the frame is as high as the table");

	const plot = (await run("import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()")).locator("img");
	await plot.waitFor();
	assert.ok(await plot.evaluate((img) => img.decode().then(() => img.naturalWidth > 300)), "the plot is an image");
	assert.match(await plot.getAttribute("src"), /^data:image\/png;base64,/);
	await shot("results");

	const error = await run("def f(n):\n    return 1 / n\nf(0)");
	assert.match(await error.locator("pre.error").textContent(), /ZeroDivisionError: division by zero/);
	assert.ok((await error.locator("pre.error span[class]:not([class=''])").count()) > 0, "its traceback has colours");

	const large = await run("from IPython.display import HTML\nHTML('<p id=long>' + 'z' * 1_500_000 + '</p>')");
	await (await frameOf(large)).waitForFunction(() => document.getElementById("long")?.textContent.length === 1_500_000);

	const long = await run("for i in range(5000): print('line', i)");
	assert.match(await long.locator("pre.stdout").textContent(), /line 4999\n$/);
	assert.ok((await long.locator("pre.stdout > span").count()) <= 2000);
	const whole = await saved(() => long.getByRole("button", { name: "Save all of stdout" }).first().click());
	assert.equal(whole.bytes.toString(), Array.from({ length: 5000 }, (_, i) => `line ${i}\n`).join(""));
}

async function interrupt() {
	const sleeping = await type("import time\nprint('asleep')\ntime.sleep(600)");
	const waiting = await type("print('never')");
	await cell(sleeping).getByText("asleep").waitFor({ timeout: CELL_MS });
	assert.equal(await cell(waiting).locator(".count").textContent(), "[*]");
	await page.getByRole("button", { name: "Interrupt" }).click();
	await cell(sleeping).getByText("KeyboardInterrupt").first().waitFor();
	await cell(waiting).getByText("Not run: an earlier cell did not end well.").waitFor();
	assert.equal(await (await run("6 * 7")).locator("pre").textContent(), "42");
}

async function files() {
	const name = "päivä #1 & 100%.csv";
	const content = Buffer.from("a,b\n1,2\n\xff", "latin1");
	await page.locator("summary").click();
	await page.locator("#upload").setInputFiles({ name, mimeType: "text/csv", buffer: content });
	await page.locator("#list").getByRole("button", { name, exact: true }).waitFor();
	const back = await saved(() => page.locator("#list").getByRole("button", { name, exact: true }).click());
	assert.deepEqual(back.bytes, content);
	assert.equal(await (await run(`len(open(${JSON.stringify(name)}, 'rb').read())`)).locator("pre").textContent(), "9");
	await page.locator("summary").click();
}

async function notebook() {
	const { name, bytes } = await saved(() => page.locator("#download").click());
	assert.equal(name, "notebook.ipynb");
	const nb = JSON.parse(bytes);
	assert.deepEqual([nb.nbformat, nb.nbformat_minor, nb.metadata.kernelspec.name], [4, 5, "python3"]);
	const ids = nb.cells.map((c) => c.id);
	assert.equal(new Set(ids).size, ids.length);
	for (const c of nb.cells) {
		assert.deepEqual(Object.keys(c).sort(), ["cell_type", "execution_count", "id", "metadata", "outputs", "source"]);
		assert.ok(c.cell_type === "code" && /^[a-zA-Z0-9-_]{1,64}$/.test(c.id) && typeof c.source === "string");
		assert.ok(c.execution_count === null || Number.isInteger(c.execution_count));
	}
	const outputs = nb.cells.flatMap((c) => c.outputs);
	const fields = { stream: "name,output_type,text", error: "ename,evalue,output_type,traceback",
		display_data: "data,metadata,output_type", execute_result: "data,execution_count,metadata,output_type" };
	for (const o of outputs) assert.equal(Object.keys(o).sort().join(), fields[o.output_type]);
	for (const type of Object.keys(fields)) assert.ok(outputs.some((o) => o.output_type === type), `there is a ${type}`);
	assert.ok(outputs.some((o) => o.data?.["image/png"] && o.data["text/plain"]));
	return nb;
}

async function reload(before) {
	const still = await type("import time\nfor i in range(600): print('tick', i, flush=True); time.sleep(0.2)");
	await cell(still).getByText("tick 2").waitFor({ timeout: CELL_MS });
	const texts = () => page.locator(".cell:not(.busy)").evaluateAll((cells) =>
		cells.map((c) => [c.querySelector("textarea").value, c.querySelector(".count").textContent, c.querySelectorAll("pre, img, iframe").length]));
	const shown = await texts();
	await page.reload();
	await page.waitForFunction((n) => document.querySelectorAll(".cell:not(.busy) :is(pre, img, iframe)").length === n,
		shown.reduce((sum, [, , n]) => sum + n, 0));
	assert.deepEqual(await texts(), shown);
	const tick = Number(/tick (\d+)\n$/.exec(await cell(still).locator("pre.stdout").textContent())[1]);
	await cell(still).getByText(`tick ${tick + 3}\n`).waitFor();
	await page.getByRole("button", { name: "Interrupt" }).click();
	await page.waitForFunction(() => !document.querySelector(".cell.busy"));
	const after = await notebook();
	assert.deepEqual(after.cells.slice(0, before.cells.length), before.cells, "the same cells and outputs as before");
}

async function keyboard() {
	const editor = page.locator(".cell textarea").last();
	const at = async () => page.evaluate(() => document.activeElement.className || document.activeElement.id);
	await editor.focus();
	await editor.pressSequentially("if 1:");
	await editor.press("Enter");
	await editor.pressSequentially("x = 1");
	await editor.press("Enter");
	await editor.press("Tab");
	assert.equal(await editor.inputValue(), "if 1:\n    x = 1\n        ");
	await editor.press("Escape");
	await editor.press("Tab");
	assert.equal(await at(), "remove", "Tab leaves after Escape");
	await page.keyboard.press("Enter");
	await page.waitForFunction(() => ![...document.querySelectorAll("textarea")].some((t) => t.value.startsWith("if 1:")));
	assert.equal(await at().then(() => page.evaluate(() => document.activeElement.tagName)), "TEXTAREA", "removing a cell goes to the next");
}

// What an output may try; each gets a frame of its own. EVIL is a server that must see nothing.
const HOSTILE = (evil) => [
	`<script>parent.postMessage({ height: 1e9 }, "*"); window.ran = 1; top.location = "${evil}"</script>`,
	`<img src=x onerror="window.ran = 1; document.title = localStorage.getItem('carrel.key')">`,
	`<img src="${evil}/img"><img srcset="${evil}/srcset"><video src="${evil}/video" autoplay></video><audio src="${evil}/audio"></audio>`,
	`<svg onload="window.ran = 1"><script>window.ran = 1</script><image href="${evil}/svg"/><use href="${evil}/use#x"/>` +
		`<animate onbegin="window.ran = 1" attributeName=x dur=1s /><foreignObject><img src=x onerror="window.ran=1"></foreignObject></svg>`,
	`<svg width=200 height=40><a class=go href="javascript:window.ran=1"><rect width=200 height=40 /></a></svg>`,
	`<a class=go href="javascript:window.ran=1">x</a>`,
	`<a class=go href="${evil}/link">x</a>`,
	`<a class=go href="${evil}/top" target=_top>x</a>`,
	`<a class=go href="${evil}/blank" target=_blank ping="${evil}/ping">x</a>`,
	`<a class=go href="/v1/sandboxes">x</a>`,
	`<svg width=200 height=40><a class=go><animate attributeName=href values="${evil}/animated" dur=1s fill=freeze /><rect width=200 height=40 /></a></svg>`,
	`<map name=m><area class=go shape=default href="${evil}/area" coords="0,0,9,9"></map><img usemap=#m width=40 height=40>`,
	`<meta http-equiv=refresh content="0;url=${evil}/refresh">`,
	`<meta http-equiv=refresh content="0;url=/v1/sandboxes">`,
	`<base href="${evil}/"><img src=relative>`,
	`<form action="${evil}/form" id=f><input name=a><button class=go>x</button></form><button class=go form=f formaction="${evil}/other" type=submit>x</button>`,
	`<form action="javascript:window.ran=1"><button class=go>x</button></form>`,
	`<iframe src="${evil}/frame"></iframe><iframe srcdoc="<script>window.ran=1</script>"></iframe><iframe src="/"></iframe>`,
	`<object data="${evil}/object"></object><embed src="${evil}/embed">`,
	`<link rel=stylesheet href="${evil}/css"><link rel=preload as=image href="${evil}/preload"><link rel=prefetch href="${evil}/prefetch">`,
	`<style>@import url(${evil}/import); @font-face { font-family: e; src: url(${evil}/font) } body { font-family: e; background: url(${evil}/background) }` +
		` * { position: fixed; inset: 0; z-index: 9999; width: 9999px; height: 9999px }</style><p>all over</p>`,
	`<div style="background: url('${evil}/style')">x</div><input autofocus onfocus="window.ran=1"><details open ontoggle="window.ran=1">x</details>`,
	`<noscript><p title="</noscript><img src=x onerror=window.ran=1>"></noscript><math><mtext><table><mglyph><style><img src=x onerror=window.ran=1>`,
	`<template><script>window.ran=1</script></template><div><template shadowrootmode=open><img src="${evil}/shadow"></template></div>`,
];

async function hostile(evil) {
	const asked = []; // every request of the browser from now on
	context.on("request", (r) => asked.push(r));
	const opened = [];
	context.on("page", (p) => opened.push(p.url()));
	const before = page.url();
	for (const html of HOSTILE(evil)) {
		asked.length = 0;
		const c = await run(`from IPython.display import HTML, SVG, display\nHTML(${JSON.stringify(html)})`);
		const frame = await frameOf(c);
		await frame.waitForFunction(() => document.getElementById("result")?.childNodes.length >= 0);
		for (const go of await frame.locator(".go").all())
			for (const force of [{}, { modifiers: ["Control"] }, { button: "middle" }])
				await go.click({ force: true, timeout: 2000, ...force }).catch(() => {}); // what has no box cannot be clicked
		await page.waitForTimeout(300);
		assert.equal(page.url(), before, html);
		assert.deepEqual(opened, [], `nothing popped up: ${html}`);
		assert.equal(await c.locator("iframe").count(), 1, `the frame is where it was: ${html}`);
		assert.equal(new URL(frame.url()).pathname, "/frame.html", html);
		assert.equal(await frame.evaluate(() => window.ran), undefined, `nothing ran: ${html}`);
		const box = await c.locator("iframe").boundingBox();
		assert.ok(box.height <= 700 && box.width <= 1100, "it stays in its box");
		const own = asked.filter((r) => !r.url().endsWith("/frame.html") && !r.url().startsWith("data:"));
		const strange = own.filter((r) => r.frame() !== page.mainFrame() || !r.url().startsWith(`${url}/v1/`));
		for (const r of strange) { // the browser tells of those, too, that the policy kept from leaving it
			assert.equal(await r.response(), null, `${r.url()}: ${html}`);
			assert.match(String(r.failure()?.errorText), /^(csp|origin)$/, `${r.url()}: ${html}`);
		}
	}

	// Were a script to run in the frame all the same, it would still be locked in.
	const frame = page.frames().findLast((f) => f.url().endsWith("/frame.html"));
	const tried = await frame.evaluate(async (url) => {
		const outcome = async (f) => Promise.resolve().then(f).then(() => "done", (e) => e.name);
		return {
			origin: origin,
			storage: await outcome(() => localStorage.getItem("carrel.key")),
			cookies: await outcome(() => document.cookie),
			page: await outcome(() => parent.document.body.innerHTML),
			api: await outcome(() => fetch(`${url}/v1/sandboxes`)),
			socket: await outcome(() => new Promise((done, fail) => Object.assign(new WebSocket(url.replace("http", "ws")), { onopen: done, onerror: () => fail(new TypeError()) }))),
			eval: await outcome(() => eval("1")),
			popup: String(window.open(`${url}/`)),
			top: await outcome(() => void (top.location = `${url}/v1/`)),
		};
	}, url);
	assert.deepEqual(tried, { origin: "null", storage: "SecurityError", cookies: "SecurityError", page: "SecurityError",
		api: "TypeError", socket: "TypeError", eval: "EvalError", popup: "null", top: "SecurityError" });
	assert.equal(page.url(), before);

	const svg = await run(
		`display(SVG('<svg xmlns="http://www.w3.org/2000/svg" width="50" height="50" onload="alert(1)"><script>parent.ran = 1</script><image href="${evil}/x"/><circle r="20"/></svg>'))`,
	);
	await svg.locator("img[src^='data:image/svg']").waitFor();
	assert.equal(await page.evaluate(() => window.ran), undefined);

	const text = await run("print('<img src=x onerror=alert(1)><script>alert(1)</script>')");
	assert.equal(await text.locator("pre.stdout").textContent(), "<img src=x onerror=alert(1)><script>alert(1)</script>\n");
	assert.equal(await key(), token);
	await shot("hostile");
}

/** The page's policies as they arrive; and nothing frames the page or opens the frame as the page's origin. */
async function policies() {
	const head = async (path) => (await context.request.get(url + path)).headers();
	const [index, frame] = [await head("/"), await head("/frame.html")];
	assert.match(index["content-security-policy"], /script-src 'self';.*frame-ancestors 'none'/);
	assert.equal(index["x-frame-options"], "DENY");
	assert.match(frame["content-security-policy"], /^sandbox allow-scripts; default-src 'none';.*frame-ancestors 'self'$/);
	assert.equal(frame["x-frame-options"], "SAMEORIGIN");
	const direct = await context.newPage();
	await direct.goto(`${url}/frame.html`);
	assert.equal(await direct.evaluate(() => origin), "null");
	await direct.close();
}

async function ending() {
	await page.getByRole("button", { name: "End" }).click();
	await page.getByText("sandbox ended: asked").waitFor();
	assert.equal(await (await run("print('a new one')")).locator("pre.stdout").textContent(), "a new one\n");
	await page.getByText("This is a new one, without its variables and files.").waitFor();
	await page.setViewportSize({ width: 390, height: 800 });
	assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "a narrow window needs no sideways scrolling");
	await shot("narrow");
	await page.getByRole("button", { name: "End" }).click();
	await page.getByText("sandbox ended: asked").waitFor();
	await page.getByRole("button", { name: "Log out" }).click();
	await page.locator("#key").waitFor();
	assert.equal(await key(), null);
}

try {
	await policies();
	await login();
	await streams();
	await results();
	await interrupt();
	await files();
	await reload(await notebook());
	await keyboard();
	await hostile(process.env.EVIL_URL);
	await ending();
	assert.deepEqual(faults, []);
} catch (e) {
	await shot("failure");
	throw e;
} finally {
	await browser.close();
}
