#!/usr/bin/python3
"""Five times: a clone changes memory and disk, is paused and saved, goes on, and another goes on from
what was saved. No byte is lost, the clock runs on, timers fire, no watchdog barks."""
import os
import time

from guests import Lab, Lines

CYCLES = 5
PAINT_STEP = 3


def clock(g):
    """-> the guest's monotonic seconds"""
    return float(g.ask("ping").split()[2])


def check(g, cycle, blocks):
    assert g.ask(f"painted {cycle} {PAINT_STEP}") == "wrong 0"
    assert g.ask(f"dpainted {cycle} {blocks}") == "wrong 0"


def main():
    with Lab() as lab:
        m, port = lab.boot_lines("source", vcpus=2)
        g = Lines(port)
        g.ask("ping")
        g.close()
        m.ask("pause")
        memory, rootfs = lab.path("memory"), lab.path("source.rootfs")
        files = {"memory": memory, "state": lab.path("state.0")}
        m.snapshot(**files)
        scratch = lab.copy(lab.path("source.scratch"), "scratch.0")
        lab.end(m)
        for cycle in range(1, CYCLES + 1):
            m, port = lab.clone(f"clone{cycle}", scratch, rootfs=rootfs, **files)
            g = Lines(port)
            if cycle > 1:
                check(g, cycle - 1, 100 * (cycle - 1))
            before, began = clock(g), time.monotonic()
            assert g.ask(f"paint {cycle} {PAINT_STEP}") == "painted"
            assert g.ask(f"dpaint {cycle} {100 * cycle}") == "wrong 0"
            g.close()
            m.ask("pause")
            files = {"memory": memory, "state": lab.path(f"state.{cycle}"), "pages": lab.path(f"pages.{cycle}")}
            saving = time.monotonic()
            m.snapshot(state=files["state"], pages=files["pages"])
            saved = time.monotonic() - saving
            scratch = lab.copy(lab.path(f"clone{cycle}.scratch"), f"scratch.{cycle}")
            m.ask("resume")
            g = Lines(port)
            check(g, cycle, 100 * cycle)
            took, ran = time.monotonic() - began, clock(g) - before
            assert 0 < ran <= took + 0.5, f"{ran} s passed inside, {took} s outside"
            print(f"cycle {cycle}: {os.path.getsize(files['pages']) >> 20} MiB of changed pages in {saved * 1000:.0f} ms")
            g.close()
            assert "lockup" not in m.console_text() and "stall" not in m.console_text()
            lab.end(m)


if __name__ == "__main__":
    main()
