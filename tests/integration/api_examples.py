#!/usr/bin/python3
"""appliance/API.md tells the truth: its index is the routing table, and its examples run.

The examples run in order in one shell against a real appliance; afterwards the
appliance's own counters show that every route was asked and none failed. What
/metrics says is checked by promtool where that is installed.

usage: api_examples.py [--index]   (prints the index for the page)
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import TOP, Appliance  # noqa: E402

PAGE = os.path.join(TOP, "appliance", "API.md")
EXAMPLES_S = 300


def routes():
    """[(method, path, rights, bytes of JSON)] as carreld itself has them."""
    out = subprocess.run([os.path.join(TOP, "build", "carreld"), "--routes"], capture_output=True, text=True, check=True)
    return [tuple(line.split()) for line in out.stdout.splitlines()]


def anchor(method, path):
    return "#" + re.sub(r"[^a-z0-9-]", "", f"{method} {path}".lower().replace(" ", "-"))


def index():
    return [f"| {m} | `{p}` | {'' if r == 'key' else r} | {'' if size == '0' else size} | [↓]({anchor(m, p)}) |"
            for m, p, r, size in routes()]


def check_index(page):
    rows = re.findall(r"^\| [A-Z]+ \| `/[^\n]*$", page, re.M)
    want = index()
    assert rows == want, "the index is not the routing table's; --index prints it:\n" + "\n".join(
        sorted(set(rows) ^ set(want)))
    described = sorted(re.findall(r"^### `([A-Z]+) (/\S*)`$", page, re.M))
    assert described == sorted((m, p) for m, p, _, _ in routes()), "described, but no route, or the reverse: " + repr(
        set(described) ^ {(m, p) for m, p, _, _ in routes()})
    for method, path in described:
        part = page.split(f"### `{method} {path}`\n")[1].split("\n### ")[0]
        assert "```sh\n" in part, f"{method} {path} has no example"


def run_examples(a, page):
    blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S)
    env = dict(os.environ, URL=f"http://127.0.0.1:{a.port}", KEY=a.token)
    with tempfile.TemporaryDirectory(prefix="carrel-examples-") as scratch:
        script = "set -euo pipefail\n" + "\n".join(blocks)
        p = subprocess.run(["bash", "-x", "-c", script], cwd=scratch, env=env, stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, timeout=EXAMPLES_S)
    assert p.returncode == 0, f"exit {p.returncode}\n{p.stderr[-3000:]}\n{p.stdout[-1000:]}"
    return p.stdout


def check_asked(metrics):
    """Every route was asked, and answered as the page says."""
    asked = {}
    for method, path, status in re.findall(
            r'^carrel_http_requests_total\{method="([A-Z]+)",route="(/[^"]*)",status="(\d+)"\} [1-9]', metrics, re.M):
        asked.setdefault((method, path), set()).add(int(status))
    for method, path, _, _ in routes():
        got = asked.get((method, path), set())
        if (method, path) == ("GET", "/metrics"):
            continue  # counted once it is answered
        assert got and all(200 <= s < 300 or s in (501, 503) for s in got), (method, path, got)


def check_metrics(a):
    metrics = a.request("GET", "/metrics")[1].decode()
    check_asked(metrics)
    for name in ("carrel_sandbox_starts_total", "carrel_sandbox_ends_total", "carrel_executions_total",
                 "carrel_store_commit_duration_seconds_count", "carrel_store_spooled_bytes_total", "carrel_streams",
                 "process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"):
        assert re.search(rf"^{name}(\{{[^}}]*\}})? [0-9]", metrics, re.M), name
    for secret in (a.token, "data team", "nightly report", "own-", "sbx-", "rain"):
        assert secret not in metrics, f"{secret} is in /metrics"
    if not shutil.which("promtool"):
        print("promtool (Debian package prometheus) is not here: the form of /metrics was not checked by it")
        return
    p = subprocess.run(["promtool", "check", "metrics"], input=metrics, capture_output=True, text=True)
    assert p.returncode == 0, p.stdout + p.stderr


def main():
    if "--index" in sys.argv:
        print("\n".join(index()))
        return
    with open(PAGE, encoding="utf-8") as f:
        page = f.read()
    check_index(page)
    with Appliance() as a:
        out = run_examples(a, page)
        for word in ("rain in Zürich", "file 15 rain #1.csv", "2 rain", '["ok",null,[]]', "asked"):
            assert word in out, (word, out[-3000:])
        check_metrics(a)


main()
