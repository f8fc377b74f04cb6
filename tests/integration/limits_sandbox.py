#!/usr/bin/python3
"""Every limit that a sandbox may have: each is reached, and what it meets has a name; it holds in a machine of the pool, after
a pause, in copies and over a restart of carreld, and without one everything is as it was.

usage: limits_sandbox.py [PART…]   (all parts without)
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import Appliance, end, refused, run, text, until  # noqa: E402

SIZE = {"memory_mb": 1024, "cpus": 1, "disk_mb": 1024}
INSIDE = {"pids": 40, "inodes": 300, "open_files": 100}
# A kernel that starts makes files of its own.
INODES_OWN = 60
# An emulated machine takes as many to start a kernel as others to run out of six.
CPU_S = 90 if os.environ.get("CARREL_LAB") else 6
SAVES = os.environ.get("ENGINE") != "jail"

PROCESSES = """
import os, signal
made = []
try:
    while len(made) < 600: made.append(os.posix_spawn('/bin/sleep', ['sleep', '600'], {}))
    print('none')
except OSError as e: print(len(made), e.errno)
for pid in made: os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)
"""
DESCRIPTORS = """
import errno, resource
held = []
try:
    while len(held) < 70000: held.append(open('/dev/null'))
    why = 'none'
except OSError as e: why = e.errno
n = len(held); held.clear()
print(errno.errorcode.get(why, why), n, *resource.getrlimit(resource.RLIMIT_NOFILE))
"""
RAISED = """
import resource
try: resource.setrlimit(resource.RLIMIT_NOFILE, (5000, 5000)); print('raised')
except (OSError, ValueError): print('refused')
"""
FILES = """
import errno, os, shutil
os.makedirs('/tmp/many', exist_ok=True)
n = 0
try:
    while n < 1000: open(f'/tmp/many/{n}', 'w').close(); n += 1
    print('none', n)
except OSError as e: print(errno.errorcode[e.errno], n)
shutil.rmtree('/tmp/many')
"""
BUSY = "import time\nuntil = time.monotonic() + {0}\nwhile time.monotonic() < until: pass"


def state_of(a, s):
    return a.json("GET", f"/v1/sandboxes/{s}")


def processes_end(a, s, most):
    count, errno = map(int, run(a, s, PROCESSES).split())
    assert most // 2 < count < most and errno == 11, (count, errno)


def descriptors_end(a, s, most):
    why, count, soft, hard = run(a, s, DESCRIPTORS).split()
    assert why == "EMFILE" and most // 2 < int(count) < most and int(soft) == int(hard) == most, (why, count, soft, hard)
    assert run(a, s, RAISED) == "refused\n"
    # What is started beside the kernels has it, too.
    for code in ("ulimit -Sn; ulimit -Hn",):
        assert text(a.execute(s, code, language="bash")).split() == [str(most)] * 2
        events = list(a.events("POST", f"/v1/sandboxes/{s}/processes", {"cmd": code}))
        assert text(events).split() == [str(most)] * 2, events


def files_end(a, s, most):
    why, count = run(a, s, FILES).split()
    assert why in ("EDQUOT", "ENOSPC") and most - INODES_OWN < int(count) <= most, (why, count)
    # What was deleted may be made again, but for what the kernel made of its own meanwhile.
    again, more = run(a, s, FILES).split()
    assert again == why and int(more) > int(count) // 2, (again, more, why, count)


def inside(a, s, descriptors=True):
    processes_end(a, s, INSIDE["pids"])
    files_end(a, s, INSIDE["inodes"])
    if descriptors:
        descriptors_end(a, s, INSIDE["open_files"])


def without(a):
    """Nothing was asked for: nothing of it is shown, and none of these is met."""
    s = a.create(timeout_s=3600)
    assert s["limits"] == SIZE, s
    s = s["id"]
    count, errno = map(int, run(a, s, PROCESSES).split())
    assert 200 < count < 512 and errno == 11, (count, errno)
    assert run(a, s, FILES) == "none 1000\n"
    assert int(run(a, s, DESCRIPTORS).split()[1]) > 900
    assert len(run(a, s, "print('x' * (3 << 20))")) == (3 << 20) + 1
    a.kill(s)


def refusals(a):
    for name, least, most in (("pids", 32, 1024), ("inodes", 64, 2097152), ("open_files", 64, 65536), ("output_mb", 1, 1024),
                              ("cpu_s", 1, 31536000)):
        for value in (0, -1, least - 1, most + 1, 1 << 60):
            got = refused(400, "out_of_range", a.create, limits={name: value})
            assert got.error["field"] == f"limits.{name}" and f"from {least} to {most}" in got.error["message"], got
        for value in ("40", 40.5, None, True):
            refused(400, "wrong_type", a.create, limits={name: value})


def all_inside(a):
    s = a.create(timeout_s=3600, limits=INSIDE)
    assert s["limits"] == SIZE | INSIDE and s["started"] != "pool", s
    assert state_of(a, s["id"])["limits"] == SIZE | INSIDE
    inside(a, s["id"])
    # A kernel that is started anew, and one more, are held as the first.
    [kernel] = [k["id"] for k in a.json("GET", f"/v1/sandboxes/{s['id']}/kernels")["kernels"] if k["language"] == "python"]
    a.json("POST", f"/v1/kernels/{kernel}/restart", {})
    descriptors_end(a, s["id"], INSIDE["open_files"])
    a.kill(s["id"])


def from_the_pool(a):
    until(lambda: a.json("GET", "/v1/stats")["pool"]["ready"] >= 1)
    asked = INSIDE if SAVES else {k: v for k, v in INSIDE.items() if k != "inodes"}
    s = a.create(timeout_s=3600, limits=asked)
    assert s["started"] == "pool" and s["limits"] == SIZE | asked, s
    processes_end(a, s["id"], INSIDE["pids"])
    descriptors_end(a, s["id"], INSIDE["open_files"])
    if SAVES:
        files_end(a, s["id"], INSIDE["inodes"])
    a.kill(s["id"])


def output(a):
    s = a.create(timeout_s=3600, limits={"output_mb": 1})["id"]
    for code in ("while True: print('x' * 99)", "import sys\nwhile True: sys.stderr.write('é' * 50000)",
                 "while True: display({'text/plain': 'y' * 100000}, raw=True)"):
        events = a.execute(s, code, timeout_s=300)
        last = end(events)
        assert last["status"] == "interrupted" and last["reason"] == "output-limit", last
        told = [e for e in events if e["type"] == "truncated" and e["stream"] == "all"]
        assert len(told) == 1 and told[0]["bytes_kept"] <= 1 << 20 < told[0]["bytes_total"], told
        size = sum(len(e["text"].encode()) for e in events if e["type"] in ("stdout", "stderr"))
        assert size <= told[0]["bytes_kept"] and ("print" not in code or size > (1 << 20) - 4096), (size, told)
        row = a.json("GET", "/v1/executions/" + next(e["execution_id"] for e in events if "execution_id" in e))
        assert row["status"] == "interrupted" and row["reason"] == "output-limit", row
    # One that does not let itself be interrupted loses its kernel; what comes after it is as ever.
    deaf = "print('x' * (2 << 20))\nwhile True:\n    try:\n        while True: pass\n    except BaseException: pass"
    last = end(a.execute(s, deaf))
    assert last["status"] == "died" and last["reason"] == "output-limit", last
    assert run(a, s, "print('z' * 1000)") == "z" * 1000 + "\n"
    # Each cell has it for itself.
    for _ in range(2):
        assert len(run(a, s, "print('x' * 900000)")) == 900001
    a.kill(s)


def cpu(a):
    s = a.create(timeout_s=3600, limits={"cpu_s": CPU_S})["id"]
    began = time.monotonic()
    run(a, s, "import time; time.sleep(1); print('rested')")
    last = end(a.execute(s, "while True: pass"))
    assert last["status"] == "died" and last["reason"] == "cpu-limit", last
    assert time.monotonic() - began > 5
    row = until(lambda: (r := state_of(a, s))["state"] == "ended" and r)
    assert row["end_reason"] == "cpu-limit" and f"{CPU_S} CPU seconds" in row["message"], row


def carreld_again(a):
    a.carreld_kill()

    until(a.serves)


def over_a_restart(a):
    """What was used before counts on, and the limits are known again."""
    s = a.create(timeout_s=3600, limits={"cpu_s": 20, **INSIDE, "output_mb": 2})["id"]
    run(a, s, BUSY.format(8))
    time.sleep(11)  # it is written down every ten seconds
    carreld_again(a)
    assert state_of(a, s)["limits"] == SIZE | INSIDE | {"cpu_s": 20, "output_mb": 2}
    assert end(a.execute(s, "while True: print('x' * 999)"))["reason"] == "output-limit"
    processes_end(a, s, INSIDE["pids"])
    used = a.json("GET", "/v1/usage")["usage"][0]["cpu_s"]
    began = time.monotonic()
    assert end(a.execute(s, "while True: pass"))["reason"] == "cpu-limit"
    assert time.monotonic() - began < 60 or used < 12, used


def paused_and_copied(a):
    limits = {**INSIDE, "cpu_s": 300}
    s = a.create(timeout_s=3600, limits=limits)["id"]
    run(a, s, "kept = 41")
    a.json("POST", f"/v1/sandboxes/{s}/pause", {})
    assert a.json("POST", f"/v1/sandboxes/{s}/resume", {})["limits"] == SIZE | limits
    assert run(a, s, "print(kept)") == "41\n"
    inside(a, s)
    if not SAVES:
        a.kill(s)
        return
    [copy] = a.json("POST", f"/v1/sandboxes/{s}/fork", {"count": 1})["sandboxes"]
    snapshot = a.json("POST", f"/v1/sandboxes/{s}/snapshots", {})
    a.kill(s)
    assert snapshot["limits"] == copy["limits"] == SIZE | limits, (snapshot, copy)
    made = a.create(snapshot=snapshot["id"])
    assert made["limits"] == SIZE | limits, made
    for one in (copy["id"], made["id"]):
        inside(a, one)
        a.kill(one)
    a.request("DELETE", f"/v1/snapshots/{snapshot['id']}")


PARTS = {f.__name__: f for f in (refusals, without, all_inside, output, cpu, paused_and_copied, over_a_restart)}


def main():
    names = sys.argv[1:] or [*PARTS, "from_the_pool"]
    if [n for n in names if n in PARTS]:
        with Appliance() as a:
            for part in (PARTS[n] for n in names if n in PARTS):
                part(a)
                print(part.__name__, flush=True)
    if "from_the_pool" in names:
        with Appliance(POOL=1) as a:
            from_the_pool(a)
            print("from_the_pool", flush=True)


main()
