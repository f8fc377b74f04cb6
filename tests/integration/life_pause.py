#!/usr/bin/python3
"""Pause and resume: everything a person has in a sandbox is there afterwards, by whichever way it was paused.

usage: life_pause.py [PART…]   (all parts without)
"""
import contextlib
import datetime
import os
import stat
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import Appliance, Refused, end, machine_pid, refused, run, text  # noqa: E402

CYCLES = 5


def pause(a, s):
    r = a.json("POST", f"/v1/sandboxes/{s}/pause", {})
    assert r["state"] == "paused" and r["paused_at"], r
    return r


def resume(a, s, **body):
    r = a.json("POST", f"/v1/sandboxes/{s}/resume", body)
    assert r["state"] == "running" and "paused_at" not in r, r
    return r


def state(a, s):
    return a.json("GET", f"/v1/sandboxes/{s}")["state"]


def wait_state(a, s, want, seconds=60):
    deadline = time.monotonic() + seconds
    while state(a, s) != want:
        assert time.monotonic() < deadline, (s, state(a, s), want)
        time.sleep(0.1)


def together(*calls):
    """All at once -> what each gave, a Refused among them."""
    results = [None] * len(calls)

    def one(i):
        try:
            results[i] = calls[i]()
        except Refused as e:
            results[i] = e

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(calls))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


def files_of(a, s):
    d = os.path.join(a.state, "sets", s)
    return sorted(os.listdir(d)) if os.path.isdir(d) else []


def nothing_left(a, s):
    for where in ("sets", "scratch", "run"):
        left = [n for n in os.listdir(os.path.join(a.state, where)) if s in n]
        assert not left, (where, left)
    pins = subprocess.run(["find", "/var/cache/carrel/snapshots" if "CARREL_CACHE" not in os.environ else
                           os.environ["CARREL_CACHE"] + "/snapshots", "-name", f"pin-{s}"], capture_output=True, text=True).stdout
    assert not pins, pins


# --- parts ---

def cycles(a):
    """Memory and disk, changed before each of five pauses in a row on one sandbox; what uses memory is given back."""
    s = a.create(timeout_s=600)["id"]
    run(a, s, "import os, time, random, uuid\nseen = []\nblobs = []")
    used = a.json("GET", "/v1/stats")["capacity"]["memory_used_mb"]
    draws = set()
    for i in range(CYCLES):
        run(a, s, f"blobs.append(os.urandom(3 << 20)); seen.append({i})\n"
                  f"open('f{i}', 'wb').write(blobs[-1]); open('log', 'a').write('{i}\\n')")
        before = a.json("GET", f"/v1/sandboxes/{s}")
        r = pause(a, s)
        assert {**r, "deadline": 0, "state": 0, "paused_at": 0} == {**before, "deadline": 0, "state": 0, "paused_at": 0}, r
        assert machine_pid(s) is None
        assert a.json("GET", "/v1/stats")["capacity"]["memory_used_mb"] < used
        assert a.json("GET", "/v1/stats")["sandboxes"]["paused"] == 1
        assert files_of(a, s) == ["manifest.json", "pages", "state"]
        for f in files_of(a, s):
            st = os.stat(os.path.join(a.state, "sets", s, f))
            assert stat.S_IMODE(st.st_mode) == 0o600 and st.st_uid != 0, (f, oct(st.st_mode))
        assert pause(a, s)["state"] == "paused"  # paused already
        resume(a, s)
        wall = time.time()
        out = run(a, s, "print(time.time(), seen, [open(f'f{i}', 'rb').read() == b for i, b in enumerate(blobs)],\n"
                        "      open('log').read().split(), random.random(), uuid.uuid4(), os.urandom(8).hex(), sep='|')").strip().split("|")
        assert abs(float(out[0]) - wall) < 5, (out[0], wall)
        assert out[1] == str(list(range(i + 1))) and out[2] == str([True] * (i + 1)), out
        assert out[3] == str([str(n) for n in range(i + 1)]), out
        assert not draws & set(out[4:]), (draws, out)
        draws |= set(out[4:])
        assert not files_of(a, s)
    assert resume(a, s)["state"] == "running"  # runs already
    a.kill(s)
    nothing_left(a, s)


def clock(a):
    """After a while away: the wall clock is right at once, monotonic time did not pass, and a draw that was agreed on before
    the pause is not the one that comes after."""
    s = a.create(timeout_s=600)["id"]
    t0 = float(run(a, s, "import random, time\nrandom.seed(5)\nprint(time.monotonic())"))
    pause(a, s)
    time.sleep(6)
    resume(a, s)
    got = run(a, s, "print(time.time(), time.monotonic(), random.random() == random.Random(5).random())").split()
    assert abs(float(got[0]) - time.time()) < 2, got
    assert float(got[1]) - t0 < 6, (t0, got)
    assert got[2] == "False", got
    a.kill(s)


COUNTING = "import time\nfor i in range(60):\n    print(i, flush=True)\n    time.sleep(0.1)\nprint('over')"


def running_cell(a):
    """A cell that runs: its client's open stream goes on after the pause without a line lost or twice, its time limit does
    not count the pause, what waits behind it runs, and its row says so."""
    s = a.create(timeout_s=600)["id"]
    run(a, s, "import time")
    seen, waited = [], []
    stream = a.events("POST", f"/v1/sandboxes/{s}/execute", {"code": COUNTING, "timeout_s": 14})
    first = threading.Thread(target=lambda: seen.extend(stream))
    first.start()
    while not any(e["type"] == "stdout" for e in seen):
        time.sleep(0.05)
    second = threading.Thread(target=lambda: waited.extend(a.execute(s, "print('behind', i)")))
    second.start()
    time.sleep(1)
    pause(a, s)
    count = len(seen)
    time.sleep(10)  # past its time limit, were it counted
    assert [e for e in seen[count:] if e["type"] != "keepalive"] == [], "it runs on while it is paused"
    x = [e["execution_id"] for e in seen if e["type"] == "started"][0]
    assert a.json("GET", f"/v1/executions/{x}")["status"] == "running"
    resume(a, s)
    first.join(60)
    second.join(60)
    assert end(seen)["status"] == "ok", seen[-3:]
    assert text(seen) == "".join(f"{i}\n" for i in range(60)) + "over\n", text(seen)[-300:]
    assert 6000 <= end(seen)["duration_ms"] < 14000, end(seen)
    assert text(waited) == "behind 59\n", waited
    # The time limit itself holds, paused or not.
    limited = []
    thread = threading.Thread(target=lambda: limited.extend(a.execute(s, "while True: time.sleep(0.1)", timeout_s=4)))
    thread.start()
    time.sleep(1.5)
    pause(a, s)
    resume(a, s)
    thread.join(60)
    assert end(limited)["status"] == "timeout", limited[-1]
    # A process's reader keeps its stream as well.
    out = []
    stream = a.events("POST", f"/v1/sandboxes/{s}/processes", {"cmd": "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.5; done", "timeout_s": 8})
    reader = threading.Thread(target=lambda: out.extend(stream))
    reader.start()
    while not any(e["type"] == "stdout" for e in out):
        time.sleep(0.05)
    pause(a, s)
    time.sleep(7)
    resume(a, s)
    reader.join(60)
    assert text(out) == "".join(f"{i}\n" for i in range(1, 9)) and end(out)["exit_code"] == 0, out
    # An interrupt that is asked for while it is paused comes through.
    cut = []
    thread = threading.Thread(target=lambda: cut.extend(a.execute(s, "while True: time.sleep(0.1)")))
    thread.start()
    time.sleep(1)
    pause(a, s)
    a.request("POST", f"/v1/executions/{a.json('GET', f'/v1/sandboxes/{s}/executions?limit=1')['executions'][0]['execution_id']}/interrupt")
    resume(a, s)
    thread.join(60)
    assert end(cut)["status"] == "interrupted", cut[-1]
    a.kill(s)


def deadline(a):
    """At its deadline one that asked for it is paused, not ended, also with work under way; a request wakes it, its time
    begins anew, and the same path is as good five times."""
    s = a.create(timeout_s=3, on_timeout="pause", auto_resume=True)
    assert s["on_timeout"] == "pause" and s["auto_resume"] is True, s
    s = s["id"]
    assert a.json("GET", f"/v1/sandboxes/{s}")["auto_resume"] is True
    run(a, s, "n = 0")
    for i in range(CYCLES):
        wait_state(a, s, "paused")
        assert run(a, s, f"n += 1; open('f', 'a').write('x'); print(n, len(open('f').read()))") == f"{i + 1} {i + 1}\n"
    wait_state(a, s, "paused")
    a.put(s, "g", b"files wake it, too")
    wait_state(a, s, "paused")
    assert a.get(s, "g") == b"files wake it, too"
    left = datetime.datetime.fromisoformat(a.json("GET", f"/v1/sandboxes/{s}")["deadline"].replace("Z", "+00:00")) - datetime.datetime.now(datetime.timezone.utc)
    assert left.total_seconds() < 3.5, left
    wait_state(a, s, "paused")
    # Keep-alive is no reason to wake.
    refused(409, "wrong_state", a.json, "POST", f"/v1/sandboxes/{s}/timeout", {"timeout_s": 60})
    resume(a, s, timeout_s=300)
    assert text(list(a.events("POST", f"/v1/sandboxes/{s}/processes", {"cmd": "cat g"}))) == "files wake it, too"
    a.kill(s)
    # One that did not ask to be woken is not; one that did not ask for a pause ends.
    p = a.create(timeout_s=2, on_timeout="pause")["id"]
    q = a.create(timeout_s=2)["id"]
    wait_state(a, p, "paused")
    for method, path, body in (("POST", "/execute", {"code": "1"}), ("POST", "/kernels", {}), ("GET", "/files?path=g", None),
                               ("POST", "/processes", {"cmd": "true"})):
        refused(409, "wrong_state", a.json, method, f"/v1/sandboxes/{p}{path}", body)
    wait_state(a, q, "ended")
    assert a.json("GET", f"/v1/sandboxes/{q}")["end_reason"] == "deadline"
    for verb in ("pause", "resume", "fork", "snapshots"):
        refused(409, "wrong_state", a.json, "POST", f"/v1/sandboxes/{q}/{verb}", {})
        refused(404, "not_found", a.json, "POST", f"/v1/sandboxes/sbx-never/{verb}", {})
    a.kill(p)
    nothing_left(a, p)


def kernels(a):
    """Kernels beside the default one, with their names and counts; environment that the code changed stays."""
    s = a.create(timeout_s=600, env={"A": "1"})["id"]
    k = a.json("POST", f"/v1/sandboxes/{s}/kernels", {"language": "python", "cwd": "/tmp"})["id"]
    run(a, s, "import os\nos.environ['B'] = '2'\nmine = 'default'")
    run(a, s, "import os\nmine = 'other'", kernel_id=k)
    boot = run(a, s, "print(open('/proc/sys/kernel/random/boot_id').read(), os.uname().nodename)")
    before = a.json("GET", f"/v1/sandboxes/{s}/kernels")["kernels"]
    pause(a, s)
    now = a.json("GET", f"/v1/sandboxes/{s}/kernels")["kernels"]
    assert now == before, (now, before)
    resume(a, s)
    now = a.json("GET", f"/v1/sandboxes/{s}/kernels")["kernels"]
    assert now == before, (now, before)
    assert run(a, s, "print(mine, os.environ['A'], os.environ['B'])") == "default 1 2\n"
    assert run(a, s, "print(mine, os.getcwd())", kernel_id=k) == "other /tmp\n"
    assert run(a, s, "print(open('/proc/sys/kernel/random/boot_id').read(), os.uname().nodename)") == boot
    pause(a, s)
    started = a.json("GET", f"/v1/sandboxes/{s}/executions?limit=1")["executions"][0]["execution_count"]
    resume(a, s)
    run(a, s, "1")
    assert a.json("GET", f"/v1/sandboxes/{s}/executions?limit=1")["executions"][0]["execution_count"] == started + 1
    a.kill(s)


def execute(a, s):
    """One that a pause met in its middle is over once it is resumed."""
    got = []

    def ask():
        try:
            got.append(a.execute(s, "print(x)"))
        except Refused as e:
            got.append(e)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join(2)
    while thread.is_alive():
        if state(a, s) == "paused":
            resume(a, s)
        thread.join(2)
    if isinstance(got[0], Refused):
        raise got[0]
    return got[0]


def pairs(a):
    """Two operations at once, each pair: they follow one another, and what was there is there."""
    verbs = {
        "pause": lambda s: a.json("POST", f"/v1/sandboxes/{s}/pause", {}),
        "resume": lambda s: a.json("POST", f"/v1/sandboxes/{s}/resume", {}),
        "fork": lambda s: a.json("POST", f"/v1/sandboxes/{s}/fork", {}),
        "snapshot": lambda s: a.json("POST", f"/v1/sandboxes/{s}/snapshots", {}),
        "execute": lambda s: execute(a, s),
        "timeout": lambda s: a.json("POST", f"/v1/sandboxes/{s}/timeout", {"timeout_s": 500}),
    }
    s = a.create(timeout_s=600)["id"]
    run(a, s, "x = 7")
    for one in verbs:
        for two in verbs:
            first, second = together(lambda: verbs[one](s), lambda: verbs[two](s))
            for name, got in ((one, first), (two, second)):
                if isinstance(got, Refused):
                    # Only what the other's pause made impossible.
                    assert got.error["code"] == "wrong_state" and "pause" in (one, two) and name in ("execute", "timeout"), (one, two, got)
                elif name == "execute":
                    assert got[-1]["type"] == "end" and text(got) == "7\n", (one, two, got)
                elif name == "fork":
                    [copy] = got["sandboxes"]
                    assert copy.get("state") == "running", (one, two, copy)
                    a.kill(copy["id"])
                elif name == "snapshot":
                    a.request("DELETE", "/v1/snapshots/" + got["id"])
            if state(a, s) == "paused":
                resume(a, s)
            assert run(a, s, "print(x)") == "7\n", (one, two)
    a.kill(s)
    # The same with its end: that always comes, at any instant of the other.
    for verb in ("pause", "resume", "fork", "snapshot"):
        for delay in (0, 0.05, 0.15, 0.4):
            s = a.create(timeout_s=600)["id"]
            if verb == "resume":
                pause(a, s)

            def ends(box=s, after=delay):
                time.sleep(after)
                a.kill(box)

            got, _ = together(lambda: verbs[verb](s), ends)
            assert state(a, s) == "ended" and a.json("GET", f"/v1/sandboxes/{s}")["end_reason"] == "asked"
            if isinstance(got, Refused):
                assert (got.status, got.error["code"]) in ((409, "wrong_state"), (404, "not_found")), got
            elif verb == "snapshot":
                a.request("DELETE", "/v1/snapshots/" + got["id"])
            nothing_left(a, s)
    # Copies of an original that was deleted meanwhile do not stay.
    deadline = time.monotonic() + 30
    while True:
        live = a.json("GET", "/v1/sandboxes")["sandboxes"]
        copies = [c["id"] for c in live if c["started"] == "fork" and c["state"] != "running"]
        if not copies:
            break
        assert time.monotonic() < deadline, live
        time.sleep(0.2)
    for c in live:
        a.kill(c["id"])


def expiry():
    """A paused sandbox is kept for so long; a stop of the appliance keeps it, a start finds it."""
    with Appliance(CARRELD_OPTIONS="--paused-keep-s 25 --sandboxes-per-owner 1") as a:
        s = a.create(timeout_s=600)["id"]
        run(a, s, "x = 7; open('f', 'w').write('kept')")
        pause(a, s)
        t = a.create(timeout_s=600)["id"]  # a paused one does not count
        refused(429, "quota", a.json, "POST", f"/v1/sandboxes/{s}/resume", {})
        a.stop()
        a.start()
        assert state(a, s) == "paused" and a.json("GET", f"/v1/sandboxes/{t}")["end_reason"] == "host-restart"
        resume(a, s)
        assert run(a, s, "print(x, open('f').read())") == "7 kept\n"
        pause(a, s)
        wait_state(a, s, "ended", 60)
        assert a.json("GET", f"/v1/sandboxes/{s}")["end_reason"] == "expired"
        nothing_left(a, s)


def damaged(a):
    """What was saved and is no more what it was is refused with a sentence, stays paused, and can be deleted."""
    for name, at in (("pages", 4096 + 100), ("pages", 20), ("pages", -8), ("state", 3000), ("manifest.json", 5)):
        s = a.create(timeout_s=600)["id"]
        pause(a, s)
        path = os.path.join(a.state, "sets", s, name)
        with open(path, "r+b") as f:
            f.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
            old = f.read(4)
            f.seek(-len(old), os.SEEK_CUR)
            f.write(bytes(b ^ 0x55 for b in old))
        e = refused(500, "snapshot_damaged", a.json, "POST", f"/v1/sandboxes/{s}/resume", {})
        assert s in e.error["message"] and state(a, s) == "paused", e
        refused(500, "snapshot_damaged", a.json, "POST", f"/v1/sandboxes/{s}/fork", {})
        with open(path, "r+b") as f:
            f.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
            f.write(old)
        resume(a, s)
        assert run(a, s, "print(1)") == "1\n"
        a.kill(s)
    # A disk that was written to since does not fit the memory any more.
    s = a.create(timeout_s=600)["id"]
    pause(a, s)
    os.utime(os.path.join(a.state, "scratch", s + ".ext4"))
    refused(500, "snapshot_damaged", a.json, "POST", f"/v1/sandboxes/{s}/resume", {})
    a.kill(s)
    nothing_left(a, s)


def full_disk():
    """The host's disk is full while it pauses: 507 with a sentence, and it goes on running as it was."""
    d = tempfile.mkdtemp(prefix="carrel-test-")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2g,mode=0755", "none", d], check=True)
    os.mkdir(os.path.join(d, os.path.basename(d) + "-state"))
    try:
        with Appliance(state=os.path.join(d, os.path.basename(d) + "-state")) as a:
            s = a.create(timeout_s=600)["id"]
            run(a, s, "import os\nx = os.urandom(8 << 20)\nopen('f', 'wb').write(x)\nos.sync()")
            with open(os.path.join(d, "fill"), "wb") as f:
                st = os.statvfs(d)
                left = st.f_bavail * st.f_frsize - (6 << 20)
                os.posix_fallocate(f.fileno(), 0, left)
            for verb in ("pause", "fork", "snapshots"):
                e = refused(507, "disk_full", a.json, "POST", f"/v1/sandboxes/{s}/{verb}", {})
                assert "disk is full" in e.error["message"], e
                assert state(a, s) == "running" and run(a, s, "print(open('f', 'rb').read() == x)") == "True\n"
            assert os.listdir(os.path.join(a.state, "sets")) == [] and os.listdir(os.path.join(a.state, "snapshots")) == []
            os.unlink(os.path.join(d, "fill"))
            pause(a, s)
            resume(a, s)
            assert run(a, s, "print(open('f', 'rb').read() == x)") == "True\n"
    finally:
        subprocess.run(["umount", "-l", d], check=True)
        os.rmdir(d)


PARTS = {f.__name__: f for f in (cycles, clock, running_cell, deadline, kernels, pairs, damaged)}
ALONE = {f.__name__: f for f in (expiry, full_disk)}


def main():
    wanted = sys.argv[1:] or [*PARTS, *ALONE]
    shared = [name for name in wanted if name in PARTS]
    with Appliance() if shared else contextlib.nullcontext() as a:
        for name in shared:
            began = time.monotonic()
            PARTS[name](a)
            print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)
    for name in wanted:
        if name in ALONE:
            began = time.monotonic()
            ALONE[name]()
            print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)


main()
