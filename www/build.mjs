// Bundles the page into static files: node build.mjs OUTDIR
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { buildSync } from "esbuild";

const out = process.argv[2] ?? "../build/www";
mkdirSync(out, { recursive: true });
cpSync("static", out, { recursive: true });
const bundle = (entry, extra) =>
	buildSync({ entryPoints: [entry], bundle: true, minify: true, target: "es2022", charset: "ascii", ...extra });
bundle("src/main.ts", { outfile: `${out}/carrel.js`, sourcemap: true });

// The frame's one script is inline and allowed by its hash, because a frame of
// an opaque origin has no 'self'.
const script = bundle("src/frame.ts", { write: false, format: "iife" }).outputFiles[0].text.trim();
const hash = createHash("sha256").update(script).digest("base64");
const page = readFileSync("static/frame.html", "utf8");
writeFileSync(`${out}/frame.html`, page.replace("HASH", `sha256-${hash}`).replace("SCRIPT", () => script));
