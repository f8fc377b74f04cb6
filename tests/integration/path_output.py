#!/usr/bin/python3
"""Large output: the live client gets every byte, the row keeps head and tail
and says so, /full returns all; a flood costs bounded memory on both sides."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import Appliance, end, text  # noqa: E402

FLOOD_LINES, LINE = 676_000, 1000
SPOOL_MAX = 64 * 1024 * 1024
GROWTH_MB_MAX = 120  # queues and caches of carreld, whatever the flood's size


def rss_mb(program):
    pids = subprocess.run(["pgrep", "-x", program], capture_output=True, text=True).stdout.split()
    sizes = []
    for pid in pids:
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            sizes.append(int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) // 1024)
    return max(sizes)


def five_million(a, s):
    events = a.execute(s["id"], "print('x' * 5_000_000)")
    assert end(events)["status"] == "ok"
    assert text(events) == "x" * 5_000_000 + "\n"
    [cut] = [e for e in events if e["type"] == "truncated"]
    assert cut["stream"] == "stdout" and cut["bytes_total"] == 5_000_001
    xid = events[0]["execution_id"]
    [out] = a.json("GET", f"/v1/executions/{xid}")["outputs"]
    assert out["bytes"] == 5_000_001 and out["truncated"] is True
    assert len(out["text"]) < 20_000 and out["text"].startswith("xxx") and out["text"].endswith("x\n")
    status, full, _ = a.request("GET", f"/v1/executions/{xid}/outputs/{out['n']}/full")
    assert status == 200 and full == b"x" * 5_000_000 + b"\n"


def flood(a, s):
    before = rss_mb("carreld")
    peak = got = 0
    code = f"import sys\nline = 'y' * {LINE - 1} + '\\n'\nfor i in range({FLOOD_LINES // 100}): sys.stdout.write(line * 100)"
    for i, e in enumerate(a.events("POST", f"/v1/sandboxes/{s['id']}/execute", {"code": code}, timeout=600)):
        if e["type"] == "started":
            xid = e["execution_id"]
        if e["type"] == "stdout":
            got += len(e["text"])
        if i % 200 == 0:
            peak = max(peak, rss_mb("carreld"))
        last = e
    assert last["type"] == "end" and last["status"] == "ok", last
    assert got == FLOOD_LINES * LINE, got
    assert peak - before < GROWTH_MB_MAX, f"carreld grew from {before} to {peak} MB"
    [out] = a.json("GET", f"/v1/executions/{xid}")["outputs"]
    assert out["bytes"] == FLOOD_LINES * LINE and out["truncated"]
    status, full, headers = a.request("GET", f"/v1/executions/{xid}/outputs/{out['n']}/full")
    assert status == 206 and len(full) == SPOOL_MAX, (status, len(full))
    assert headers["Content-Range"] == f"bytes 0-{SPOOL_MAX - 1}/{FLOOD_LINES * LINE}"
    used = sum(os.path.getsize(os.path.join(d, f)) and os.stat(os.path.join(d, f)).st_blocks * 512
               for d, _, fs in os.walk(os.path.join(a.state, "spool")) for f in fs)
    assert used < 4 * SPOOL_MAX, f"{used} bytes on disk"
    again = a.execute(s["id"], "print('still here')")
    assert text(again) == "still here\n"


def flood_is_interrupted(a, s):
    events = a.execute(s["id"], "while True: print(1)", timeout_s=2)
    assert end(events)["status"] == "timeout", end(events)
    assert text(a.execute(s["id"], "print(2)")) == "2\n"


def full_at_once(a, s):
    """What a live event names is there when the event is: nobody has to wait for a commit of which they know nothing."""
    code = ("import base64, os, time\nfrom IPython.display import display\n"
            "for i in range(5):\n    display({'image/png': base64.b64encode(bytes([i]) * 2_000_000).decode()}, raw=True)\n"
            "    time.sleep(0.3)")
    seen = 0
    for e in a.events("POST", f"/v1/sandboxes/{s['id']}/execute", {"code": code}):
        if e["type"] == "display":
            assert e["omitted"] == ["image/png"], e
            status, full, headers = a.request("GET", e["full"])
            assert status == 200 and full == bytes([seen]) * 2_000_000 and headers["Content-Type"] == "image/png"
            seen += 1
    assert seen == 5 and e["status"] == "ok", (seen, e)


def main():
    with Appliance() as a:
        s = a.create(timeout_s=3600)
        full_at_once(a, s)
        five_million(a, s)
        flood_is_interrupted(a, s)
        flood(a, s)


main()
