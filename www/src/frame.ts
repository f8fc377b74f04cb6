// Inside the sandboxed frame (opaque origin): shows one HTML result and tells
// its height. Scripts and handlers in the result do not run: innerHTML starts
// none, and the frame's policy allows no script but this one.

const result = document.getElementById("result")!;
const tell = () => parent.postMessage({ height: document.documentElement.scrollHeight }, "*");

addEventListener("message", (e) => {
	if (e.source !== parent || typeof e.data?.html !== "string") return;
	result.innerHTML = e.data.html;
	tell();
	new ResizeObserver(tell).observe(result);
});
parent.postMessage({ ready: true }, "*");
