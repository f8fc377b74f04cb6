#!/usr/bin/python3
"""The engine jail's life: only by name, paused by the freezer through a restart of carreld, told what it cannot do,
ended on time and with a reason; and nothing of it is left, whatever was killed.

usage: jail_life.py [PART…]   (all parts without)
"""
import contextlib
import glob
import os
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import Appliance, end, machine_pid, refused, run, text, until  # noqa: E402

LIMITS = {"memory_mb": 512}
COUNTING = "import threading, time\nn = 0\ndef count():\n    global n\n    while True:\n        n += 1\n        time.sleep(0.01)\n" \
           "threading.Thread(target=count, daemon=True).start()"


def create(a, **spec):
    return a.create(limits=LIMITS, **spec)["id"]


def row(a, s):
    return a.json("GET", f"/v1/sandboxes/{s}")


def ended(a, s):
    r = until(lambda: (r := row(a, s))["state"] == "ended" and r)
    return r["end_reason"]


def cpu_ticks(s):
    with open(f"/proc/{machine_pid(s)}/stat", encoding="ascii") as f:
        return f.read().split()[11:17]


def users_of(s):
    """The first of its users, and how many processes any of them has."""
    with open(f"/proc/{machine_pid(s)}/uid_map", encoding="ascii") as f:
        return int(f.read().split()[1])


def processes_of(base):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if base <= os.stat(f"/proc/{pid}").st_uid < base + 65536:
                found.append(pid)
    return found


def loops_of(a):
    out = subprocess.run(["losetup", "--list", "--noheadings", "-O", "BACK-FILE"], capture_output=True, text=True, check=True).stdout
    return [line for line in out.splitlines() if "/scratch/sbx-" in line and any(s in line for s in a.created)]


def groups_of(a):
    return [os.path.join(root, d) for root, dirs, _ in os.walk("/sys/fs/cgroup") for d in dirs if d in a.created]


def nothing_left(a, bases):
    until(lambda: not loops_of(a), 30)
    until(lambda: not groups_of(a), 30)
    for base in bases:
        until(lambda b=base: not processes_of(b), 30)
    for where in ("scratch", "run", "sets"):
        left = [n for n in os.listdir(os.path.join(a.state, where)) if any(s in n for s in a.created)]
        assert not left, (where, left)
    for path in glob.glob("/proc/[0-9]*/mountinfo"):
        with contextlib.suppress(OSError), open(path, encoding="utf-8") as f:
            assert not [line for line in f if any(s in line for s in a.created)], path


# --- parts ---

def by_name(a):
    s = a.create(engine="jail", limits=LIMITS)
    assert s["engine"] == "jail" and s["started"] == "boot", s
    refused(400, "engine_unavailable", a.create, engine="tcg")
    assert run(a, s["id"], "print(6 * 7)") == "42\n"
    assert text(a.execute(s["id"], "echo $((6 * 7))", language="bash")) == "42\n"
    a.kill(s["id"])


def pauses(a):
    """Paused it does nothing, through a restart of carreld; resumed it goes on where it was."""
    s = create(a)
    run(a, s, COUNTING)
    r = a.json("POST", f"/v1/sandboxes/{s}/pause", {})
    assert r["state"] == "paused" and r["paused_at"], r
    before = cpu_ticks(s)
    time.sleep(1)
    assert cpu_ticks(s) == before
    refused(409, "wrong_state", a.execute, s, "print(1)")
    a.carreld_kill()
    until(a.serves)
    assert row(a, s)["state"] == "paused" and machine_pid(s)
    assert cpu_ticks(s) == before
    assert a.json("POST", f"/v1/sandboxes/{s}/resume", {})["state"] == "running"
    first = int(run(a, s, "print(n)"))
    time.sleep(0.5)
    assert int(run(a, s, "print(n)")) > first
    # Again, and a cell that runs meanwhile goes on.
    events = []
    for e in a.events("POST", f"/v1/sandboxes/{s}/execute", {"code": "print('on', flush=True)\nimport time\ntime.sleep(3)\nprint('off')"}):
        events.append(e)
        if e.get("text") == "on\n":
            a.json("POST", f"/v1/sandboxes/{s}/pause", {})
            time.sleep(1)
            a.json("POST", f"/v1/sandboxes/{s}/resume", {})
    assert end(events)["status"] == "ok" and text(events) == "on\noff\n", events
    a.kill(s)


def runs_through_a_restart(a):
    s = create(a)
    run(a, s, COUNTING)
    a.carreld_kill()
    until(a.serves)
    assert int(run(a, s, "print(n)")) > 0
    a.kill(s)


def no_copies(a):
    s = create(a)
    for paused in (False, True):
        if paused:
            a.json("POST", f"/v1/sandboxes/{s}/pause", {})
        for path, body in ((f"/v1/sandboxes/{s}/fork", {}), (f"/v1/sandboxes/{s}/snapshots", {})):
            e = refused(409, "not_supported", a.json, "POST", path, body)
            assert "jail" in e.error["message"] and "paused" in e.error["message"], e.error
    assert row(a, s)["state"] == "paused"
    a.json("POST", f"/v1/sandboxes/{s}/resume", {})
    assert run(a, s, "print(1)") == "1\n"
    a.kill(s)


def deadlines(a):
    s, t = create(a, timeout_s=8), create(a, timeout_s=8, on_timeout="pause")
    until(lambda: row(a, t)["state"] == "paused", 40)
    assert machine_pid(t)
    assert ended(a, s) == "deadline"
    a.kill(t)  # a paused one, too
    assert ended(a, t) == "asked"


def keeper_killed(a):
    for paused in (False, True):
        s = create(a)
        base = users_of(s)
        if paused:
            a.json("POST", f"/v1/sandboxes/{s}/pause", {})
        [keeper] = map(int, subprocess.run(["pgrep", "-f", f"^carrel-keeper {s}$"], capture_output=True, text=True, check=True).stdout.split())
        os.kill(keeper, signal.SIGKILL)
        assert ended(a, s).startswith("crashed"), row(a, s)
        nothing_left(a, [base])


def agent_killed(a):
    s = create(a)
    base = users_of(s)
    os.kill(machine_pid(s), signal.SIGKILL)
    assert ended(a, s) == "crashed(SIGKILL)", row(a, s)
    nothing_left(a, [base])


def spawn_killed(a):
    """What runs goes on under the next one, paused or not, and ends as it should."""
    s, p = create(a), create(a)
    bases = [users_of(s), users_of(p)]
    run(a, s, "x = 1")
    a.json("POST", f"/v1/sandboxes/{p}/pause", {})
    pid = a.pid_of("carrel-spawn")
    with open(os.pidfd_open(pid), "rb") as dead:
        os.kill(pid, signal.SIGKILL)
        select.select([dead], [], [])
    assert a.pid_of("carrel-spawn") != pid
    before = cpu_ticks(p)
    assert run(a, s, "print(x)") == "1\n"
    assert cpu_ticks(p) == before and row(a, p)["state"] == "paused"
    a.json("POST", f"/v1/sandboxes/{p}/resume", {})
    assert run(a, p, "print(2)") == "2\n"
    t = create(a)
    bases.append(users_of(t))
    assert len(set(bases)) == 3, bases
    for one in (s, p, t):
        a.kill(one)
    nothing_left(a, bases)


def pool(a):
    """One that waits is handed out; its kernels have run, and leave no trace of it."""
    until(lambda: a.json("GET", "/v1/stats")["pool"]["ready"] > 0, 120)
    s = a.create()
    assert s["started"] == "pool" and s["engine"] == "jail", s
    events = a.execute(s["id"], "print([n for n in globals() if not n.startswith('_') and n not in ('In', 'Out', 'exit', 'quit', 'open', 'get_ipython')])")
    assert text(events) == "[]\n" and events[0]["execution_count"] == 1, events
    assert run(a, s["id"], "import socket; print(socket.gethostname())").strip() == s["id"]
    a.kill(s["id"])


PARTS = [by_name, pauses, runs_through_a_restart, no_copies, deadlines, keeper_killed, agent_killed, spawn_killed]


def main():
    wanted = sys.argv[1:]
    parts = [p for p in PARTS if not wanted or p.__name__ in wanted]
    if parts:
        with Appliance(ENGINE="jail") as a:
            for part in parts:
                began = time.monotonic()
                part(a)
                print(f"{part.__name__} {time.monotonic() - began:.0f} s", flush=True)
            nothing_left(a, [])
    if not wanted or "pool" in wanted:
        with Appliance(ENGINE="jail", POOL=1) as a:
            pool(a)
            print("pool", flush=True)


main()
