// Bundles the page into static files: node build.mjs OUTDIR
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { buildSync } from "esbuild";

const out = process.argv[2] ?? "../build/www";
mkdirSync(out, { recursive: true });
cpSync("static", out, { recursive: true });

// The frame's one script is inline and allowed by its hash, because a frame of
// an opaque origin has no 'self'.
const frame = readFileSync("static/frame.html", "utf8");
const script = /<script>([^]*)<\/script>/.exec(frame)[1];
const hash = createHash("sha256").update(script).digest("base64");
writeFileSync(`${out}/frame.html`, frame.replace("HASH", `sha256-${hash}`));

// Last, because make takes it for the whole.
buildSync({
	entryPoints: ["src/main.ts"],
	outfile: `${out}/carrel.js`,
	bundle: true,
	minify: true,
	sourcemap: true,
	target: "es2022",
	charset: "ascii",
});
