#!/usr/bin/python3
"""Machines that wait for sandboxes: nobody used them, each is its own, they give way, and none is left behind.

usage: life_pool.py [NAME]...     without a name: every part, in order
"""
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import Appliance, Refused, end, machine_pid, text, until  # noqa: E402

POOL = 2
SKEW_S = 0.05
AT_ONCE = 50
HANG_S = 150

IDENTITY = """
import json, os, random, secrets, socket, ssl, tempfile, uuid
import numpy as np
def read(p): return open(p).read().strip()
print(json.dumps({
    "random": random.random(), "numpy": float(np.random.rand()), "default_rng": float(np.random.default_rng().random()),
    "uuid1": str(uuid.uuid1()), "uuid4": str(uuid.uuid4()), "secrets": secrets.token_hex(8),
    "ssl": ssl.RAND_bytes(8).hex(), "urandom": os.urandom(8).hex(), "tempname": next(tempfile._get_candidate_names()),
    "hostname": socket.gethostname(), "machine_id": read("/etc/machine-id"),
    "boot_id": read("/proc/sys/kernel/random/boot_id"),
}))
"""
# What a kernel that never ran a cell holds; told by exec, so that the cell's own text names nothing.
TRACES = """
exec('''
import json, sys
_ip = get_ipython()
_ns = _ip.user_ns
print(json.dumps({
    "names": sorted(n for n in _ns if n not in ("_ip", "_ns", "json", "sys")),
    "in": len(_ns["In"]), "out": len(_ns["Out"]), **{n: _ns.get(n) for n in ("_", "__", "_i", "_ii")},
    "history": list(_ip.history_manager.input_hist_raw)[:-1], "last": [n for n in dir(sys) if n.startswith("last_")],
    "count": _ip.execution_count}, default=str))
''')
"""


def stats(a):
    return a.json("GET", "/v1/stats")["pool"]


def full(a, n=POOL):
    return until(lambda: (s := stats(a))["ready"] >= n and not s["filling"] and s)


def ids_in(a):
    """The machines that there are, by their runtime directories."""
    return {n for n in os.listdir(os.path.join(a.state, "run")) if n.startswith("sbx-")}


def claim(a, **spec):
    s = a.create(**spec)
    assert s["started"] == "pool", s
    return s


def carreld_killed(a):
    a.carreld_kill()

    until(a.serves)


def kernel_names(a, s):
    return [(k["name"], k["language"]) for k in a.json("GET", f"/v1/sandboxes/{s['id']}/kernels")["kernels"]]


def inside(a, name):
    """A file of the state directory as carreld sees it (conf/run)."""
    number = subprocess.run(["cksum"], input=a.state.encode(), capture_output=True).stdout.split()[0].decode()
    return f"/run/carrel-{number}/state/{name}"


# --- the parts; a: an appliance whose pool is full ---


def unused(a):
    """A first cell is the first: no count, no name, no history, no result of the warm-up."""
    fresh = a.create(limits={"cpus": 0.5})  # of another share of the CPUs: past the pool
    assert fresh["started"] == "clone", fresh
    events = a.execute(fresh["id"], TRACES)
    assert end(events)["status"] == "ok", events
    wanted = json.loads(text(events))
    other_names = kernel_names(a, fresh)
    a.kill(fresh["id"])
    full(a)
    s = claim(a)
    events = a.execute(s["id"], TRACES)
    assert end(events)["status"] == "ok", events
    assert events[0]["type"] == "started" and events[0]["execution_count"] == 1, events[0]
    assert "kernel_restarted" not in events[0]
    got = json.loads(text(events))
    assert got["names"] == wanted["names"], set(got["names"]) ^ set(wanted["names"])
    assert (got["in"], got["out"], got["count"], got["history"]) == (2, 0, 1, [""]), got
    assert not any(got[n] for n in ("_", "__", "_i", "_ii", "last")), got
    events = a.execute(s["id"], "6 * 7")
    assert [e["data"]["text/plain"] for e in events if e["type"] == "result"] == ["42"], events
    assert [x["code"] for x in a.json("GET", f"/v1/sandboxes/{s['id']}/executions")["executions"]] == ["6 * 7", TRACES]
    assert kernel_names(a, s) == other_names
    assert a.json("GET", f"/v1/sandboxes/{s['id']}")["started"] == "pool"
    a.kill(s["id"])


def identity(a):
    """Each is a machine of its own, and its clock is right however long it waited."""
    seen = []
    for _ in range(4):
        full(a)
        time.sleep(1)
        s = claim(a)
        before = time.time()
        events = a.execute(s["id"], "import time; print(time.time())")
        after = time.time()
        skew = max(before - float(text(events)), float(text(events)) - after, 0.0)
        for _ in range(5):
            before = time.time()
            guest = float(text(a.execute(s["id"], "print(time.time())")))
            skew = min(skew, max(before - guest, guest - time.time(), 0.0))
        assert skew < SKEW_S, f"clock off by {skew:.3f} s"
        seen.append(json.loads(text(a.execute(s["id"], IDENTITY))))
        assert seen[-1]["hostname"] == s["id"], seen[-1]
        a.kill(s["id"])
    for x, y in itertools.combinations(seen, 2):
        shared = [k for k in x if x[k] == y[k]]
        assert not shared, f"two machines share {shared}"


def own(a):
    """Environment, limits, owner and deadline are the sandbox's, though the machine was there before."""
    full(a)
    s = claim(a, env={"OWN": "yes it's"}, metadata={"m": "1"}, limits={"memory_mb": 640}, timeout_s=3600)
    assert s["metadata"] == {"m": "1"} and s["limits"]["memory_mb"] == 640
    code = "import os; print(os.environ['OWN'])\nimport subprocess; print(subprocess.check_output('echo $OWN', shell=True, text=True))"
    assert text(a.execute(s["id"], code)).split("\n")[:2] == ["yes it's"] * 2
    out = "".join(e.get("text", "") for e in a.events("POST", f"/v1/sandboxes/{s['id']}/processes", {"cmd": "echo $OWN"}))
    assert out == "yes it's\n", out
    # 700 MB fit the machine's class, not this sandbox's limit.
    grab = "x = bytearray(700 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint('had them')"
    events = a.execute(s["id"], grab)
    assert "had them" not in text(events) and end(events)["status"] in ("died", "error"), events[-3:]
    a.kill(s["id"])
    full(a)
    s = claim(a, timeout_s=4)
    until(lambda: a.json("GET", f"/v1/sandboxes/{s['id']}").get("end_reason") == "deadline", 30)


def past(a):
    """An empty pool is no obstacle, and a demand makes it grow."""
    full(a)
    before = stats(a)
    made = [a.create() for _ in range(POOL + 1)]
    assert {s["started"] for s in made[:POOL]} == {"pool"}, made
    assert made[-1]["started"] in ("pool", "clone")
    for s in made:
        assert text(a.execute(s["id"], "print(1)")) == "1\n"
        a.kill(s["id"])
    now = full(a)
    assert now["claimed"] >= before["claimed"] + POOL and now["size"] <= now["max"], now


def lost(a):
    """Machines whose QEMU is killed while they wait are replaced, and never handed out."""
    full(a)
    before, lost_before = ids_in(a), stats(a)["lost"]
    for i in before:
        os.kill(machine_pid(i), signal.SIGKILL)
    s = a.create()
    assert s["started"] in ("clone", "pool") and text(a.execute(s["id"], "print(1)")) == "1\n"
    a.kill(s["id"])
    until(lambda: not before & ids_in(a), 60)
    full(a)
    assert stats(a)["lost"] + 1 >= lost_before + len(before)  # one may have been taken at that moment
    # One that dies as it is taken: the sandbox comes up nevertheless.
    pids = [machine_pid(i) for i in ids_in(a)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    done = []
    t = threading.Thread(target=lambda: done.append(a.create()))
    t.start()
    time.sleep(0.5)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    t.join(HANG_S)
    assert done and text(a.execute(done[0]["id"], "print(1)")) == "1\n", done
    a.kill(done[0]["id"])


def rebuilt(a):
    """A snapshot whose files are others than were checked: its clones are not handed out any more."""
    full(a)
    before = ids_in(a)
    # The one in use is among carreld's open files, in its own view of the cache.
    pid = a.pid_of("carreld")
    opened = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    cache = os.environ.get("CARREL_CACHE", "/var/cache/carrel")
    rams = {os.path.join(cache, *p.split("/")[-3:]) for p in opened if p.endswith("/ram")}
    assert rams, opened
    for p in rams:
        os.utime(p)
    # Whoever asks for figures looks at the snapshot.
    until(lambda: stats(a) and not before & ids_in(a))
    full(a)
    s = claim(a)
    assert text(a.execute(s["id"], "print(1)")) == "1\n"
    a.kill(s["id"])


def at_once(a):
    """Many creates at once: each gets a sandbox or a refusal that says when to come again; none hangs or leaks."""
    full(a)
    got, lock = [], threading.Lock()

    def one():
        began = time.monotonic()
        try:
            what = a.create()
        except Refused as e:
            what = e
        with lock:
            got.append((what, time.monotonic() - began))

    threads = [threading.Thread(target=one) for _ in range(AT_ONCE)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(HANG_S)
        assert not t.is_alive(), "a create hangs"
    assert len(got) == AT_ONCE
    refused = [x for x, _ in got if isinstance(x, Refused)]
    made = [x for x, _ in got if not isinstance(x, Refused)]
    for r in refused:
        assert r.status in (429, 503) and r.headers["Retry-After"].isdigit(), (r.status, r.body)
        assert r.error.get("code") in ("quota", "capacity", "busy"), r.body
    assert made and len({s["id"] for s in made}) == len(made)
    assert text(a.execute(made[0]["id"], "print(1)")) == "1\n"
    for s in made:
        a.kill(s["id"])
    listed = a.json("GET", "/v1/sandboxes")["sandboxes"]
    assert not listed, listed
    print(f"{len(made)} made, {len(refused)} refused")


def crash(a):
    """carreld killed with a full pool, and at each step of filling and taking: nothing is left of what was there."""
    full(a)
    before = ids_in(a)
    carreld_killed(a)
    until(lambda: not before & ids_in(a), 60)
    full(a)
    for name in ("pool.disk", "pool.started", "pool.identified", "pool.warm", "pool.ready", "pool.taken", "create.committed"):
        crash_at(a, name)
    full(a)
    for s in a.json("GET", "/v1/sandboxes")["sandboxes"]:
        a.kill(s["id"])
    full(a)
    assert len(ids_in(a)) == stats(a)["ready"], (ids_in(a), stats(a))
    assert len(os.listdir(os.path.join(a.state, "scratch"))) == stats(a)["ready"]


def stopped(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return f.read().rsplit(")", 1)[1].split()[0] == "T"


def crash_at(a, name):
    full(a)
    pid = a.pid_of("carreld")
    with open(a.instants + ".new", "w", encoding="ascii") as f:
        f.write(name)
    os.rename(a.instants + ".new", a.instants)

    def create():
        with contextlib.suppress(OSError, Refused, ValueError):
            a.create()
    t = threading.Thread(target=create)
    t.start()  # takes one, which has to be replaced
    until(lambda: stopped(pid))
    carreld_killed(a)
    t.join(HANG_S)
    for s in a.json("GET", "/v1/sandboxes")["sandboxes"]:
        assert text(a.execute(s["id"], "print(1)")) == "1\n", name
        a.kill(s["id"])


def gives_way(a):
    """With memory for three: sandboxes get it, and the pool lets go."""
    full(a)
    made = [a.create() for _ in range(3)]
    try:
        a.create()
        raise AssertionError("a fourth has no room")
    except Refused as e:
        assert e.status == 503 and e.headers["Retry-After"].isdigit() and e.error["code"] == "capacity", e
    s = stats(a)
    assert s["memory_mb"] == 0 or s["ready"] + s["filling"] == 0, s
    for s in made:
        assert text(a.execute(s["id"], "print(1)")) == "1\n"
        a.kill(s["id"])
    full(a, 1)
    # Another class than the pool holds: its machines make room for it.
    full(a)
    big = a.create(limits={"memory_mb": 1024, "disk_mb": 1024, "cpus": 0.5})
    two = a.create(limits={"memory_mb": 1024, "disk_mb": 1024, "cpus": 0.5})
    assert big["started"] == two["started"] == "clone"
    until(lambda: stats(a)["given_up"] > 0)
    a.kill(big["id"])
    a.kill(two["id"])


PARTS = {f.__name__: f for f in (unused, identity, own, past, lost, rebuilt, at_once, crash)}


def main():
    wanted = sys.argv[1:] or [*PARTS, "gives_way"]
    several = [n for n in wanted if n in PARTS]
    if several:
        a = Appliance(POOL=POOL)
        a.instants = os.path.join(a.state, "instants")
        a.settings["CARREL_INSTANTS"] = inside(a, "instants")
        with a:
            for n in several:
                PARTS[n](a)
                print("ok", n, flush=True)
    if "gives_way" in wanted:
        with Appliance(POOL=2, MEMORY_MB=3 * 1120 + 100) as a:
            gives_way(a)
            print("ok gives_way", flush=True)


main()
