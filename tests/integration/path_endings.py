#!/usr/bin/python3
"""Every way a cell or a sandbox ends has a name, and what should live on does."""
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import Appliance, end, machine_pid, text  # noqa: E402

DEADLINE_GRACE_S = 10


def timeout_keeps_variables(a, s):
    a.execute(s["id"], "kept = 41")
    assert end(a.execute(s["id"], "while True: pass", timeout_s=2))["status"] == "timeout"
    assert text(a.execute(s["id"], "print(kept + 1)")) == "42\n"


def memory_error(a, s):
    events = a.execute(s["id"], "bytearray(1 << 40)")
    assert [e["name"] for e in events if e["type"] == "error"] == ["MemoryError"], events
    assert text(a.execute(s["id"], "print(kept)")) == "41\n"


def fresh_kernel(a, s, code, **ending):
    a.execute(s["id"], "marker = 1")
    events = a.execute(s["id"], f"print('last words')\n{code}")
    last = end(events)
    assert last["status"] == "died" and text(events) == "last words\n", events
    for key, value in ending.items():
        assert last.get(key) == value, (key, last)
    events = a.execute(s["id"], "print('marker' in globals())")
    [started] = [e for e in events if e["type"] == "started"]
    assert started.get("kernel_restarted") is True, started
    assert text(events) == "False\n"
    [second] = [e for e in a.execute(s["id"], "1") if e["type"] == "started"]
    assert "kernel_restarted" not in second


def all_before_the_kill(a, s):
    """However much a kernel was still sending when it was killed, its client has all of it, once and in order."""
    code = ("import os\nfor i in range(20000): print(i, 'x' * 90)\n"
            "display({'text/plain': 'shown'}, raw=True)\nprint('and', end='')\nos.kill(os.getpid(), 9)")
    events = a.execute(s["id"], code)
    want = "".join(f"{i} {'x' * 90}\n" for i in range(20000)) + "and"
    got = text(events)
    assert end(events)["status"] == "died" and got == want, (end(events), len(got), len(want), got[-200:])
    assert [e for e in events if e["type"] == "display"], [e["type"] for e in events]


def interrupt(a, s):
    stream = a.events("POST", f"/v1/sandboxes/{s['id']}/execute", {"code": "import time\nprint('on')\ntime.sleep(60)"})
    events = []
    for e in stream:
        events.append(e)
        if e["type"] == "stdout":
            a.request("POST", f"/v1/executions/{events[0]['execution_id']}/interrupt")
    assert end(events)["status"] == "interrupted", events


def input_is_refused(a, s):
    events = a.execute(s["id"], "input('? ')")
    assert [e["name"] for e in events if e["type"] == "error"] == ["StdinNotImplementedError"]


def ended_sandbox_ends_its_cell(a):
    s = a.create()
    events = []
    for e in a.events("POST", f"/v1/sandboxes/{s['id']}/execute", {"code": "print('on')\nwhile True: pass"}):
        events.append(e)
        if e["type"] == "stdout":
            a.kill(s["id"])
    assert end(events)["status"] == "died" and end(events)["reason"] == "asked", events
    assert a.json("GET", f"/v1/sandboxes/{s['id']}")["end_reason"] == "asked"
    a.kill(s["id"])  # an ended one of yours: 204 again


def deadline_without_carreld(a):
    s = a.create(timeout_s=8)
    [pid] = map(int, subprocess.run(["pgrep", "-f", f"carreld --state .*--run"], capture_output=True,
                                    text=True).stdout.split()[:1])
    os.kill(pid, signal.SIGSTOP)
    try:
        limit = time.monotonic() + 8 + DEADLINE_GRACE_S
        assert machine_pid(s["id"])
        while machine_pid(s["id"]):
            assert time.monotonic() < limit, "the sandbox outlived its deadline while carreld was stopped"
            time.sleep(0.1)
    finally:
        os.kill(pid, signal.SIGCONT)
    limit = time.monotonic() + DEADLINE_GRACE_S
    while (row := a.json("GET", f"/v1/sandboxes/{s['id']}"))["state"] != "ended":
        assert time.monotonic() < limit, row
        time.sleep(0.1)
    assert row["end_reason"] == "deadline", row


def main():
    with Appliance() as a:
        s = a.create(timeout_s=3600)
        timeout_keeps_variables(a, s)
        memory_error(a, s)
        interrupt(a, s)
        input_is_refused(a, s)
        fresh_kernel(a, s, "import os; os._exit(3)", exit_code=3)
        fresh_kernel(a, s, "import ctypes; ctypes.string_at(0)", signal="SIGSEGV")
        fresh_kernel(a, s, "import os; os.kill(os.getpid(), 9)", signal="SIGKILL")
        fresh_kernel(a, s, "x = []\nwhile True: x.append(bytearray(b'1') * (1 << 24))", reason="out-of-memory")
        all_before_the_kill(a, s)
        ended_sandbox_ends_its_cell(a)
        deadline_without_carreld(a)


main()
