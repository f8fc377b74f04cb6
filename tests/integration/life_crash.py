#!/usr/bin/python3
"""kill -9 of each process at each numbered instant of a sandbox's life. After the restart everything that was acknowledged
is there, every row matches a machine, files or an end with a reason, and nothing is left behind.

carreld stops itself at a named instant (core/instant.h), so that each kill hits exactly there.

usage: life_crash.py [all | WORD…]   (a sample without; a WORD picks the points whose name has it)
"""
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import TOP, Appliance, Refused, end, machine_pid, text  # noqa: E402

SAMPLE = 12  # every twelfth point, beginning elsewhere each time it is run on another day
PARTS = {"carreld": "carreld", "spawn": "carrel-spawn", "nginx": "nginx"}
VICTIMS = (*PARTS, "machine", "keeper")
REACH_S = 90
SETTLE_S = 90
PINS = os.environ.get("CARREL_CACHE", "/var/cache/carrel") + "/snapshots"


def instants(*prefixes):
    out = subprocess.run([os.path.join(TOP, "build", "carreld"), "--instants"], capture_output=True, text=True, check=True)
    return [n for n in out.stdout.split() if n.split(".")[0] in prefixes]


def pgrep(*words):
    return [int(p) for p in subprocess.run(["pgrep", *words], capture_output=True, text=True).stdout.split()]


def part_pid(a, name):
    return pgrep("-P", str(a.process.pid), "-f", name)[0]


def keeper_pid(s):
    found = pgrep("-f", f"^carrel-keeper {s}$")
    return found[0] if found else None


def patient(call, *args, limit_s=SETTLE_S, **kw):
    """The part is away for a moment: again until it is back. What it refuses for good is the answer."""
    limit = time.monotonic() + limit_s
    while True:
        try:
            return call(*args, **kw)
        except Refused as e:
            if e.status not in (502, 503, 504) or time.monotonic() > limit:
                raise
        except Exception:
            if time.monotonic() > limit:
                raise
        time.sleep(0.1)


class Bench:
    def __init__(self, a, control):
        self.a, self.control = a, control

    # --- what a point is made of ---

    def arm(self, name):
        with open(self.control + ".new", "w", encoding="ascii") as f:
            f.write(name + "\n")
        os.chmod(self.control + ".new", 0o644)
        os.rename(self.control + ".new", self.control)

    def reached(self, carreld, thread):
        deadline = time.monotonic() + REACH_S
        while True:
            with open(f"/proc/{carreld}/stat", encoding="ascii", errors="replace") as f:
                if f.read().rsplit(")", 1)[1].split()[0] == "T":
                    return
            assert time.monotonic() < deadline and (thread.is_alive() or os.path.exists(self.control) is False), "the instant never came"
            time.sleep(0.005)

    def strike(self, name, victim, call, boxes):
        """Does call(), kills the victim at the instant -> (what call gave or None when it was cut, whether there was a victim)."""
        got = []

        def work():
            try:
                got.append(call())
            except Refused as e:
                got.append(e)
            except Exception:
                pass  # cut: the client knows nothing

        carreld = part_pid(self.a, "carreld")
        self.arm(name)
        thread = threading.Thread(target=work)
        thread.start()
        self.reached(carreld, thread)
        if victim in PARTS:
            pids = [part_pid(self.a, PARTS[victim])]
        else:
            pids = [(machine_pid if victim == "machine" else keeper_pid)(s) for s in boxes()]
        pids = [p for p in pids if p]
        for p in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(p, signal.SIGKILL)
        if victim != "carreld":
            os.kill(carreld, signal.SIGCONT)
        thread.join(240)
        assert not thread.is_alive(), "the caller hangs"
        return (got[0] if got else None), bool(pids)

    # --- what must hold ---

    def row(self, s):
        return patient(self.a.json, "GET", f"/v1/sandboxes/{s}")

    def settled(self, s):
        """Its state, once nothing is under way on it any more."""
        limit = time.monotonic() + SETTLE_S
        while True:
            row = self.row(s)
            if row["state"] == "ended":
                return row
            # A request waits for what is under way; what a paused one answers is no.
            try:
                patient(self.a.json, "POST", f"/v1/sandboxes/{s}/timeout", {"timeout_s": 600})
                row = self.row(s)
                if row["state"] == "ended" or machine_pid(s):
                    return row  # else its end is on its way
            except Refused:
                row = self.row(s)
                if row["state"] == "paused":
                    return row
            assert time.monotonic() < limit, row
            time.sleep(0.1)

    def run(self, s, code):
        events = patient(self.a.execute, s, code)
        assert end(events)["status"] == "ok", events
        return text(events)

    def whole(self, s):
        """Running or paused: memory and disk are as they were when that was acknowledged."""
        row = self.settled(s)
        assert row["state"] != "ended", row
        if row["state"] == "paused":
            assert machine_pid(s) is None
            patient(self.a.json, "POST", f"/v1/sandboxes/{s}/resume", {})
        assert self.run(s, "print(x, len(blob), open('f', 'rb').read() == blob)") == f"7 {2 << 20} True\n"
        assert machine_pid(s)

    def begin(self, **spec):
        s = patient(self.a.create, **{"timeout_s": 600, **spec})["id"]
        self.run(s, "import os\nx = 7\nn = 0\nblob = os.urandom(2 << 20)\nopen('f', 'wb').write(blob)")
        return s

    def clean(self):
        """Everything ended: nothing is left of any of it."""
        for r in patient(self.a.json, "GET", "/v1/sandboxes")["sandboxes"]:
            self.a.created = self.a.created | {r["id"]}
            patient(self.a.kill, r["id"])
        for r in patient(self.a.json, "GET", "/v1/snapshots")["snapshots"]:
            patient(self.a.request, "DELETE", "/v1/snapshots/" + r["id"])
        limit = time.monotonic() + 30
        while left := self.left():
            assert time.monotonic() < limit, "left: " + "; ".join(left)
            time.sleep(0.2)
        rows = subprocess.run(["sqlite3", "-readonly", os.path.join(self.a.state, "carrel.db"),
                               "SELECT id, state, end_reason FROM sandboxes WHERE state <> 'ended' OR end_reason IS NULL"],
                              capture_output=True, text=True, check=True).stdout
        assert not rows, rows

    def left(self):
        left = []
        for folder in ("sets", "snapshots", "scratch", "run"):
            left += [f"{folder}/{n}" for n in os.listdir(os.path.join(self.a.state, folder)) if folder != "run" or n[0] != "."]
        left += [f"keeper {p}" for p in pgrep("-f", "^carrel-keeper sbx-") if self.ours(p)]
        left += subprocess.run(["find", PINS, "-name", "pin-*", "-newer", os.path.join(self.a.state, "token")],
                               capture_output=True, text=True).stdout.split() if self.alone else []
        for root, dirs, _ in os.walk("/sys/fs/cgroup"):
            left += [f"cgroup {root}/{d}" for d in dirs if d in self.a.created]
        return left

    alone = False

    def ours(self, pid):
        try:
            with open(f"/proc/{pid}/mountinfo", encoding="utf-8") as f:
                return os.path.basename(self.a.state) in f.read()
        except OSError:
            return False


# --- the operations: what is done, and what must hold afterwards ---

def ended_by_kill(b, s, victim):
    """The machine itself was killed: its end is told with a reason, not lost."""
    row = b.settled(s)
    assert victim in ("machine", "keeper") and row["state"] == "ended" and row["end_reason"], row


def op_pause(b, name, victim, busy=False, automatic=False, auto=False):
    s = b.begin(**({"timeout_s": 600, "on_timeout": "pause"} if automatic else {}))
    cell = x = None
    if busy:
        seen = []

        def first():
            with contextlib.suppress(Exception):  # cut with carreld
                for e in b.a.events("POST", f"/v1/sandboxes/{s}/execute", {"code": COUNTING}):
                    seen.append(e)

        cell = threading.Thread(target=first)
        cell.start()
        while not any(e["type"] == "stdout" for e in seen):
            time.sleep(0.02)
        x = next(e["execution_id"] for e in seen if e["type"] == "started")
    if automatic:
        def call():
            b.a.json("POST", f"/v1/sandboxes/{s}/timeout", {"timeout_s": 1})
            time.sleep(4)
    else:
        def call():
            return b.a.json("POST", f"/v1/sandboxes/{s}/pause", {})
    got, hit = b.strike(name, victim, call, lambda: [s])
    row = b.settled(s)
    late = ("pause.saved", "pause.sealed", "pause.committed", "pause.stopped")
    if isinstance(got, dict):
        assert got["state"] == "paused" and row["state"] == "paused", (got, row)
    if victim in ("machine", "keeper") and hit and row["state"] == "ended":
        assert name not in late[1:], "what was saved whole is not lost with its machine: " + str(row)
        return ended_by_kill(b, s, victim)
    b.whole(s)
    if busy:
        cell.join()
        events = patient(lambda: list(b.a.events("GET", f"/v1/executions/{x}/stream?after=0")))
        while events[-1]["type"] != "end":
            events = patient(lambda: list(b.a.events("GET", f"/v1/executions/{x}/stream?after=0")))
        assert end(events)["status"] == "ok" and text(events) == "".join(f"{i}\n" for i in range(40)), events[-3:]
    return None


COUNTING = "import time\nfor i in range(40):\n    print(i, flush=True)\n    time.sleep(0.1)"


def op_resume(b, name, victim, **kw):
    s = b.begin()
    b.a.json("POST", f"/v1/sandboxes/{s}/pause", {})
    got, hit = b.strike(name, victim, lambda: b.a.json("POST", f"/v1/sandboxes/{s}/resume", {}), lambda: [s])
    row = b.settled(s)
    if isinstance(got, dict):
        assert got["state"] == "running", got
    if victim in ("machine", "keeper") and hit and row["state"] == "ended":
        # Only a machine that had run on its disk is lost with it.
        assert name not in ("resume.opened",), row
        return ended_by_kill(b, s, victim)
    return b.whole(s)


def op_fork(b, name, victim, paused=False):
    s = b.begin()
    if paused:
        b.a.json("POST", f"/v1/sandboxes/{s}/pause", {})

    def boxes():
        """Of fork.*: the copies' machines; before that the original's."""
        if not name.startswith("fork."):
            return [s]
        names = os.listdir(os.path.join(b.a.state, "run"))
        return [n for n in names if n.startswith("sbx-") and n != s]

    got, hit = b.strike(name, victim, lambda: b.a.json("POST", f"/v1/sandboxes/{s}/fork", {"count": 2}), boxes)
    live = patient(b.a.json, "GET", "/v1/sandboxes")["sandboxes"]
    if victim in ("machine", "keeper") and hit and name.startswith("copy."):
        ended_by_kill(b, s, victim)
    else:
        b.whole(s)
    told = [m["id"] for m in got["sandboxes"] if "id" in m] if isinstance(got, dict) else []
    for c in {r["id"] for r in live if r["id"] != s} | set(told):
        row = b.settled(c)
        if row["state"] == "ended":
            assert row["end_reason"] and (c not in told or (victim in ("machine", "keeper") and hit)), row
        else:
            b.whole(c)


def op_snapshot(b, name, victim, paused=False):
    s = b.begin()
    if paused:
        b.a.json("POST", f"/v1/sandboxes/{s}/pause", {})
    if name == "snapshot.deleted":
        snap = b.a.json("POST", f"/v1/sandboxes/{s}/snapshots", {})["id"]
        got, hit = b.strike(name, victim, lambda: b.a.request("DELETE", "/v1/snapshots/" + snap), lambda: [s])
        assert patient(b.a.json, "GET", "/v1/snapshots")["snapshots"] == []
    else:
        got, hit = b.strike(name, victim, lambda: b.a.json("POST", f"/v1/sandboxes/{s}/snapshots", {}), lambda: [s])
    if victim in ("machine", "keeper") and hit:
        row = b.settled(s)
        if row["state"] == "ended":
            ended_by_kill(b, s, victim)
    else:
        b.whole(s)
    kept = [r["id"] for r in patient(b.a.json, "GET", "/v1/snapshots")["snapshots"]]
    if isinstance(got, dict):
        assert got["id"] in kept, (got, kept)
    for k in kept:
        b.whole(patient(b.a.create, snapshot=k)["id"])
    # What its end cut short is taken away by the thread that made it.
    limit = time.monotonic() + SETTLE_S
    while sorted(os.listdir(os.path.join(b.a.state, "snapshots"))) != sorted(kept):
        assert time.monotonic() < limit, (os.listdir(os.path.join(b.a.state, "snapshots")), kept)
        time.sleep(0.1)


def op_create(b, name, victim):
    while not patient(b.a.json, "GET", "/healthz")["ready"]:
        time.sleep(0.1)
    got, hit = b.strike(name, victim, lambda: b.a.create(timeout_s=600),
                        lambda: [n for n in os.listdir(os.path.join(b.a.state, "run")) if n.startswith("sbx-")])
    told = got["id"] if isinstance(got, dict) else None
    for r in patient(b.a.json, "GET", "/v1/sandboxes")["sandboxes"]:
        row = b.settled(r["id"])
        if row["state"] == "ended":
            assert row["end_reason"] and (row["id"] != told or victim in ("machine", "keeper")), row
        else:
            assert b.run(r["id"], "print(1)") == "1\n"
    if told and b.settled(told)["state"] == "ended":
        ended_by_kill(b, told, victim)


def op_execute(b, name, victim):
    s = b.begin()
    got, hit = b.strike(name, victim, lambda: b.a.execute(s, "n += 1\nprint('once', n)"), lambda: [s])
    if victim in ("machine", "keeper") and hit:
        ended_by_kill(b, s, victim)
    rows = patient(b.a.json, "GET", f"/v1/sandboxes/{s}/executions")["executions"]
    x = rows[0]["execution_id"]
    events = patient(lambda: list(b.a.events("GET", f"/v1/executions/{x}/stream?after=0")))
    limit = time.monotonic() + SETTLE_S
    while not events or events[-1]["type"] != "end":
        assert time.monotonic() < limit, events
        events = patient(lambda: list(b.a.events("GET", f"/v1/executions/{x}/stream?after=0")))
    if victim in PARTS:
        assert end(events)["status"] == "ok" and text(events) == "once 1\n", events
        assert b.run(s, "print(n)") == "1\n"
        b.whole(s)
    else:
        assert end(events)["status"] in ("died", "cancelled", "ok"), events


def op_end(b, name, victim):
    s = b.begin()
    b.strike(name, victim, lambda: b.a.kill(s), lambda: [s])
    # Cut off before it was recorded, it is asked for again.
    patient(b.a.kill, s)
    limit = time.monotonic() + SETTLE_S
    while b.row(s)["state"] != "ended":
        assert time.monotonic() < limit, b.row(s)
        time.sleep(0.1)
    assert b.row(s)["end_reason"], b.row(s)


def points():
    """(name, function, arguments) of all."""
    made = []
    for op, names, function, variants in (
            ("create", instants("create"), op_create, [{}]),
            ("execute", instants("execute"), op_execute, [{}]),
            ("end", instants("end"), op_end, [{}]),
            ("pause", instants("pause"), op_pause, [{}, {"busy": True}, {"automatic": True}]),
            ("resume", instants("resume"), op_resume, [{}]),
            ("fork", instants("copy", "fork"), op_fork, [{}]),
            ("fork-paused", instants("fork"), op_fork, [{"paused": True}]),
            ("snapshot", instants("copy", "snapshot"), op_snapshot, [{}]),
            ("snapshot-paused", ["snapshot.sealed", "snapshot.committed"], op_snapshot, [{"paused": True}])):
        for variant in variants:
            for name in names:
                for victim in VICTIMS:
                    # A clone that dies before it counts as one is booted instead: a minute of its own.
                    if name in ("create.started", "create.identified") and victim in ("machine", "keeper"):
                        continue
                    label = " ".join([op, name, victim, *variant])
                    made.append((label, function, name, victim, variant))
    return made


def main():
    words = sys.argv[1:]
    chosen = points()
    if not words:
        chosen = chosen[int(time.time() / 86400) % SAMPLE::SAMPLE]
    elif words != ["all"]:
        chosen = [p for p in chosen if all(w in p[0] for w in words)]
    control = tempfile.mkdtemp(prefix="carrel-instants-")
    os.chmod(control, 0o777)
    try:
        with Appliance(CARREL_INSTANTS=os.path.join(control, "at")) as a:
            b = Bench(a, os.path.join(control, "at"))
            for label, function, name, victim, variant in chosen:
                began = time.monotonic()
                print(label, end=": ", flush=True)
                function(b, name, victim, **variant)
                b.clean()
                print(f"{time.monotonic() - began:.1f} s", flush=True)
            print(len(chosen), "points")
    finally:
        subprocess.run(["rm", "-rf", control], check=True)


main()
