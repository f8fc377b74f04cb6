#!/usr/bin/python3
"""kill -9 of each part in the middle of an execution: the cell goes on, its row
is complete, its client can reattach; the launcher starts the part again."""
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import Appliance, end, text  # noqa: E402

LINES = 150
CODE = f"import time\nfor i in range({LINES}):\n    print(i)\n    time.sleep(0.05)"


def patient(call, *args, **kw):
    """The part is away for a moment: try until the launcher has it back."""
    limit = time.monotonic() + 30
    while True:
        try:
            return call(*args, **kw)
        except Exception:  # refused, cut or 502, until the limit says otherwise
            if time.monotonic() > limit:
                raise
            time.sleep(0.2)


def killed_in_the_middle(a, pattern):
    s = patient(a.create)
    ids = []

    def first_client():
        try:
            for e in a.events("POST", f"/v1/sandboxes/{s['id']}/execute", {"code": CODE}):
                ids.extend([e["execution_id"]] if e["type"] in ("queued", "started") else [])
        except Exception:
            pass  # its connection is cut when nginx or carreld dies: that is what is tested

    thread = threading.Thread(target=first_client)
    thread.start()
    while not ids:
        time.sleep(0.05)
    time.sleep(1)  # somewhere in the middle of the printed lines
    os.kill(a.pid_of(pattern), signal.SIGKILL)
    thread.join()

    events = patient(lambda: list(a.events("GET", f"/v1/executions/{ids[0]}/stream?after=0")))
    while events[-1]["type"] != "end":
        events = patient(lambda: list(a.events("GET", f"/v1/executions/{ids[0]}/stream?after=0")))
    assert end(events)["status"] == "ok", (pattern, end(events))
    assert text(events) == "".join(f"{i}\n" for i in range(LINES)), (pattern, text(events)[-200:])
    row = patient(a.json, "GET", f"/v1/executions/{ids[0]}")
    assert row["status"] == "ok" and row["outputs"][0]["bytes"] == len(text(events)), row
    after = patient(a.execute, s["id"], "print(i)")
    assert text(after) == f"{LINES - 1}\n", after
    patient(a.kill, s["id"])


def fresh_is_not_forgotten(a):
    """The next cell runs in a fresh kernel: that is told also when carreld was not the same in between."""
    s = patient(a.create)["id"]
    a.execute(s, "import os; os._exit(3)")
    a.carreld_kill()
    events = patient(a.execute, s, "print(1)")
    [first] = [e for e in events if e["type"] == "started"]
    assert first["kernel_restarted"] is True, events
    a.carreld_kill()
    assert patient(a.json, "GET", f"/v1/executions/{first['execution_id']}")["kernel_restarted"] is True
    assert list(patient(lambda: list(a.events("GET", f"/v1/executions/{first['execution_id']}/stream")))) == events
    patient(a.kill, s)


def start_is_cut(a):
    """carreld dies at any instant of a kernel's start: the kernel is there once, with its name, and its cell runs."""
    s = patient(a.create)["id"]
    [kernel] = a.json("GET", f"/v1/sandboxes/{s}/kernels")["kernels"]
    for delay in (0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1):
        a.request("DELETE", "/v1/kernels/" + kernel["id"])
        ids = {x["execution_id"] for x in a.json("GET", f"/v1/sandboxes/{s}/executions")["executions"]}

        def client():
            with contextlib.suppress(Exception):  # its connection is cut when carreld dies
                a.execute(s, "print('ran')")

        thread = threading.Thread(target=client)
        thread.start()
        time.sleep(delay)
        a.carreld_kill()
        thread.join()
        rows = patient(a.json, "GET", f"/v1/sandboxes/{s}/executions")["executions"]
        for x in (r["execution_id"] for r in rows if r["execution_id"] not in ids):
            events = patient(lambda: list(a.events("GET", f"/v1/executions/{x}/stream")))
            assert end(events)["status"] == "ok" and text(events) == "ran\n", (delay, events)
        assert text(patient(a.execute, s, "print(2)")) == "2\n", delay
        [now] = a.json("GET", f"/v1/sandboxes/{s}/kernels")["kernels"]
        assert (now["id"], now["name"], now["language"]) == (kernel["id"], kernel["name"], kernel["language"]), (delay, now)
    patient(a.kill, s)


def asked_for_is_cut(a):
    """carreld dies while somebody asks for a kernel: either it is listed, or it is gone inside too."""
    s = patient(a.create)["id"]
    for delay in (0.05, 0.3, 0.6):
        def client():
            with contextlib.suppress(Exception):  # its connection is cut when carreld dies
                a.json("POST", f"/v1/sandboxes/{s}/kernels", {})

        thread = threading.Thread(target=client)
        thread.start()
        time.sleep(delay)
        a.carreld_kill()
        thread.join()
        patient(a.execute, s, "import os")
        deadline = time.monotonic() + 30
        while True:
            # Without the warm ones of other languages, which are listed once they are used.
            inside = int(text(a.execute(s, "print(sum('default-' not in k for k in os.listdir('/run/carrel/kernels')))")))
            if inside == len(a.json("GET", f"/v1/sandboxes/{s}/kernels")["kernels"]):
                break
            assert time.monotonic() < deadline, (delay, inside)
            time.sleep(0.2)
    a.kill(s)


RUNNING = """
import os
def running():
    found = 0
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            found += open(f'/proc/{pid}/cmdline').read().split('\\0')[:2] == ['sleep', '4321']
        except OSError:
            pass
    return found
"""


def process_is_cut(a):
    """A process is its reader's: when carreld dies the stream breaks without an end, and the process is killed like after
    any hang-up, so that nothing nobody can reach goes on inside."""
    s = patient(a.create)["id"]
    a.execute(s, RUNNING)
    stream = a.events("POST", f"/v1/sandboxes/{s}/processes", {"cmd": "sleep 4321 & sleep 4321"})
    assert next(stream)["type"] == "started"
    while text(a.execute(s, "print(running())")) != "2\n":
        time.sleep(0.1)
    a.carreld_kill()
    seen = []
    with contextlib.suppress(Exception):  # the connection breaks
        seen += list(stream)
    assert not any(e["type"] == "end" for e in seen), seen
    deadline = time.monotonic() + 30
    while text(patient(a.execute, s, "print(running())")) != "0\n":
        assert time.monotonic() < deadline, "a process goes on without its reader"
        time.sleep(0.2)
    # One that ended by itself, and one that was hung up, are forgotten too.
    assert end(list(a.events("POST", f"/v1/sandboxes/{s}/processes", {"cmd": "exit 3"})))["exit_code"] == 3
    with contextlib.closing(a.events("POST", f"/v1/sandboxes/{s}/processes", {"cmd": "sleep 4321"})) as stream:
        next(stream)
    rows = lambda: subprocess.run(["sqlite3", "-readonly", os.path.join(a.state, "carrel.db"), "SELECT count(*) FROM processes"],  # noqa: E731
                                  capture_output=True, text=True, check=True).stdout
    while rows() != "0\n" or text(a.execute(s, "print(running())")) != "0\n":
        assert time.monotonic() < deadline, rows()
        time.sleep(0.2)
    a.kill(s)


def main():
    with Appliance() as a:
        fresh_is_not_forgotten(a)
        start_is_cut(a)
        asked_for_is_cut(a)
        process_is_cut(a)
        for pattern in ("carreld", "carrel-spawn", "nginx"):
            killed_in_the_middle(a, pattern)


main()
