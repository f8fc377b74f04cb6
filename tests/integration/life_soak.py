#!/usr/bin/python3
"""Many lives after each other leave memory, descriptors and files where they were,
and no two sandboxes share identity or randomness.

usage: life_soak.py [CREATES [PAUSES]]   (30 and 6; the long run is 1000 200)
"""
import concurrent.futures
import contextlib
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import Appliance, machine_pid, text  # noqa: E402

WARM = 6          # lives before the first count: caches, threads and pools have grown
AT_ONCE = 2       # a worker a core
GROWTH_KB = 6144  # of all of Carrel's daemons: malloc's own slack, not a life's kilobytes
DIRTY_MB = 4
STORE = "/carrel.db"  # connections of readers: as many stay open as were ever needed at once, up to 16

IDENTITY = """
import random, numpy, uuid, secrets, ssl, tempfile, socket
print(random.random(), numpy.random.random(), uuid.uuid4(), uuid.uuid1().node, secrets.token_hex(16), ssl.RAND_bytes(16).hex(),
      tempfile.mktemp(), socket.gethostname(), open('/proc/sys/kernel/random/boot_id').read().strip(),
      open('/etc/machine-id').read().strip(), random.getrandbits(64))
"""


def daemons(a):
    """carreld, carrel-spawn and nginx of this appliance: pid -> name."""
    found, children = {}, [a.process.pid]
    while children:
        pid = children.pop()
        children += map(int, subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split())
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/comm", encoding="ascii") as f:
                name = f.read().strip()
            if name in ("carreld", "carrel-spawn", "nginx"):
                found[pid] = name
    return found


def files(a):
    """What lies in the state directory, but for the history that is kept on purpose."""
    count = 0
    for root, dirs, names in os.walk(a.state):
        dirs[:] = [d for d in dirs if d != "spool"]
        count += len(names) + len(dirs)
    return count


def descriptors_of(pid):
    names = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            names.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return names


def census(a):
    memory, descriptors = 0, 0
    for pid in daemons(a):
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            memory += next(int(l.split()[1]) for l in f if l.startswith("VmRSS:"))
        descriptors += sum(STORE not in name for name in descriptors_of(pid))
    with open("/proc/self/mounts", encoding="utf-8") as f:
        mounts = len(f.readlines())
    cgroups = sum(d in a.created for _, dirs, _ in os.walk("/sys/fs/cgroup") for d in dirs)
    return {"memory_kb": memory, "descriptors": descriptors, "files": files(a), "mounts": mounts, "cgroups": cgroups,
            "machines": sum(machine_pid(i) is not None for i in list(a.created)[-50:])}


def settled(a):
    """The census once what ends in the background has ended: two in a row are alike."""
    deadline = time.monotonic() + 20
    now = census(a)
    while time.monotonic() < deadline:
        last = now
        time.sleep(0.5)
        now = census(a)
        if all(now[k] == last[k] for k in now if k != "memory_kb"):
            break
    return now


def same(before, after):
    for what, value in before.items():
        limit = value + GROWTH_KB if what == "memory_kb" else value
        assert after[what] <= limit, f"{what} grew: {before} -> {after}"


def life(a):
    s = a.create()
    said = text(a.execute(s["id"], IDENTITY)).split()
    a.kill(s["id"])
    assert len(said) == 11, said
    return said


def creates(a, n):
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for f in [pool.submit(life, a) for _ in range(WARM)]:
            f.result()
        before = settled(a)
        began = time.monotonic()
        seen = [f.result() for f in [pool.submit(life, a) for _ in range(n)]]
    took = time.monotonic() - began
    for column in zip(*seen):
        assert len(set(column)) == n, f"two of {n} sandboxes share {column[0]!r}"
    after = settled(a)
    print(f"{n} lives in {took:.0f} s: {before} -> {after}", flush=True)
    same(before, after)


def pause_cycle(a, sandbox_id, n):
    a.execute(sandbox_id, f"x = {n}; block = bytearray(b'{n % 10}') * ({DIRTY_MB} << 20); open('f', 'w').write(str(x) * 1000)")
    a.json("POST", f"/v1/sandboxes/{sandbox_id}/pause", {})
    a.json("POST", f"/v1/sandboxes/{sandbox_id}/resume", {})
    said = text(a.execute(sandbox_id, f"print(x, block == bytearray(b'{n % 10}') * ({DIRTY_MB} << 20), open('f').read() == str(x) * 1000)"))
    assert said == f"{n} True True\n", said


def fork_cycle(a, sandbox_id, n):
    [copy] = a.json("POST", f"/v1/sandboxes/{sandbox_id}/fork", {"count": 1})["sandboxes"]
    a.created = a.created | {copy["id"]}
    assert text(a.execute(copy["id"], "print(x); x = 0")) == f"{n}\n"
    assert text(a.execute(sandbox_id, "print(x)")) == f"{n}\n"
    a.kill(copy["id"])


def pauses(a, n):
    s = a.create(timeout_s=86400)["id"]
    for i in range(WARM // 2):
        pause_cycle(a, s, i)
        fork_cycle(a, s, i)
    before = settled(a)
    began = time.monotonic()
    for i in range(n):
        pause_cycle(a, s, i)
        fork_cycle(a, s, i)
    took = time.monotonic() - began
    after = settled(a)
    print(f"{n} pauses, resumes and forks in {took:.0f} s: {before} -> {after}", flush=True)
    same(before, after)
    a.kill(s)


def main():
    wanted = [int(x) for x in sys.argv[1:]] + [30, 6][len(sys.argv) - 1:]
    with Appliance() as a:
        creates(a, wanted[0])
        pauses(a, wanted[1])


main()
