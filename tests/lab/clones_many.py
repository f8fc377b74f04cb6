#!/usr/bin/python3
"""A hundred clones of one snapshot at once, ten of them answering: what is not written is shared."""
import os
import re
import time

from guests import Lab, Lines

CLONES = int(os.environ.get("LAB_CLONES", "100"))
ANSWERING = 10
# The monitor itself, beyond what its guest wrote.
MONITOR_KB_MAX = 1536


def private_kb(pid, memory):
    """-> private kilobytes of (guest memory, everything else) of a monitor"""
    guest = other = 0
    inside = False
    with open(f"/proc/{pid}/smaps", encoding="utf-8") as f:
        for line in f:
            if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                inside = line.rstrip().endswith(memory)
            elif line.startswith(("Private_Dirty:", "Private_Clean:")):
                kb = int(line.split()[1])
                guest, other = (guest + kb, other) if inside else (guest, other + kb)
    return guest, other


def main():
    with Lab() as lab:
        m, port = lab.boot_lines("source")
        Lines(port).ask("ping")
        m.ask("pause")
        files = {"memory": lab.path("memory"), "state": lab.path("state")}
        m.snapshot(**files)
        lab.end(m)
        disks = {"rootfs": lab.path("source.rootfs"), "scratch": lab.path("source.scratch")}
        began = time.monotonic()
        clones = [lab.clone(f"clone{i}", **files, **disks) for i in range(CLONES)]
        print(f"{CLONES} clones started in {time.monotonic() - began:.1f} s")
        for _, port in clones[:ANSWERING]:
            assert Lines(port).ask("ping").startswith("pong 2 ")
        print(f"{ANSWERING} answered after {time.monotonic() - began:.1f} s")
        assert all(m.ask("stat")["state"] == "running" for m, _ in clones)
        idle = sorted(private_kb(m.p.pid, files["memory"]) for m, _ in clones[ANSWERING:])
        guest, other = idle[len(idle) // 2][0], max(o for _, o in idle)
        print(f"private memory of an idle clone: {guest} KiB of the guest's (median), {other} KiB of the monitor's (most)")
        assert other <= MONITOR_KB_MAX, idle
        for m, _ in clones:
            assert m.p.poll() is None


if __name__ == "__main__":
    main()
