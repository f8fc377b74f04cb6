#!/usr/bin/python3
"""What a sandbox writes to the disk is held to WRITE_MB_S, and goes on at that rate: nothing is lost, nobody is ended."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import Appliance, run, skip  # noqa: E402

WRITE_MB_S = 8
WRITTEN_MB = 64
ROUNDS = 3
# A group that was idle has something in hand.
LEAST_S = WRITTEN_MB / WRITE_MB_S / 2

CODE = f"""
import os, time
began = time.monotonic()
with open('written', 'wb') as f:
    for _ in range({WRITTEN_MB}):
        f.write(os.urandom(1 << 20))
    os.fsync(f.fileno())
print(time.monotonic() - began, os.path.getsize('written') >> 20)
"""


def can():
    """Whether this host limits that at all: carrel-spawn says so where it does not."""
    with open("/proc/cgroups", encoding="ascii") as f:
        return any(line.split()[0] in ("blkio", "io") and line.split()[3] == "1" for line in f)


def main():
    if not can():
        skip("this kernel has no controller for disk traffic")
    with Appliance(WRITE_MB_S=WRITE_MB_S) as a:
        if "WRITE_MB_S" in a.tail():
            skip(f"{a.state} lies on no disk that has a limit")
        s = a.create()["id"]
        took = []
        for _ in range(ROUNDS):
            seconds, size = run(a, s, CODE, timeout_s=300).split()
            assert int(size) == WRITTEN_MB, size
            took.append(float(seconds))
        print(f"{WRITTEN_MB} MiB at {WRITE_MB_S} MiB/s took " + ", ".join(f"{t:.1f} s" for t in took))
        assert sorted(took)[1] >= LEAST_S, took
        assert a.json("GET", f"/v1/sandboxes/{s}")["state"] == "running"


main()
