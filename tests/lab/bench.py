#!/usr/bin/python3
"""carrel-vmm beside QEMU's microvm on the same KVM: `make lab CMD=tests/lab/bench.py`.

The same kernel, initramfs, disks and memory, each through the same carrel-spawn, in turn; medians. Prints a table and
asserts nothing but that every machine answers.
"""
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from clones_hundred import template  # noqa: E402
from engine import MEMORY_MB, Host  # noqa: E402

from private import private_kib  # noqa: E402

RUNS = int(os.environ.get("BENCH_RUNS", "20"))
MONITORS = ("carrel-vmm", "qemu")


class Side:
    def __init__(self, host, monitor):
        os.environ["MONITOR"] = monitor
        self.host, self.monitor, self.d = host, monitor, host.driver("kvm")
        self.figures = {}
        self.count = 0

    def note(self, what, value):
        self.figures.setdefault(what, []).append(value)

    def machine(self, mode, files):
        """Started until the guest's first answer -> its name, ms"""
        self.count += 1
        name = f"{mode}-{self.monitor}-{self.count}"
        began = time.monotonic()
        self.d.start(name, mode, files(name))
        self.d.wait(f"started {name}", 600)
        g = self.host.guest(name)
        assert g.ask("ping").startswith("pong ")
        ms = (time.monotonic() - began) * 1000
        g.close()
        return name, ms

    def end(self, name):
        self.d.say("stop", name, "asked")
        self.d.wait(f"ended {name} asked")
        self.d.say("free", name)

    def boot(self):
        name, ms = self.machine("boot", self.host.files)
        self.note("start to the guest's first answer, ms", ms)
        self.end(name)

    def restore(self, source):
        name, ms = self.machine("clone", lambda n: self.host.clone_files(source, n))
        self.note("restore to the guest's first answer, ms", ms)
        guest, rest = private_kib(self.host.qemu(name), MEMORY_MB)
        self.note("private memory of the monitor alone, KiB", rest)
        self.note("private memory that the guest wrote, KiB", guest)
        self.end(name)


def main():
    with Host() as host:
        sides = [Side(host, m) for m in MONITORS]
        sources = {s.monitor: template(host, s.d, "source-" + s.monitor) for s in sides}
        for _ in range(RUNS):
            for side in sides:
                side.boot()
        for _ in range(RUNS):
            for side in sides:
                side.restore(sources[side.monitor])
        for side in sides:
            side.d.end()
    print(f"\nmedian of {RUNS} (lowest to highest), {MEMORY_MB} MiB, the same guest")
    print(f"{'':44}" + "".join(f"{m:>28}" for m in MONITORS) + f"{'ratio':>8}")
    for what in sides[0].figures:
        values = [s.figures[what] for s in sides]
        medians = [statistics.median(v) for v in values]
        cells = "".join(f"{f'{m:.0f} ({min(v):.0f} to {max(v):.0f})':>28}" for m, v in zip(medians, values))
        print(f"{what:44}{cells}{medians[0] / medians[1]:8.2f}")


if __name__ == "__main__":
    main()
