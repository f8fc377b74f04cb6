#!/usr/bin/python3
"""A snapshot of a running guest, and two clones that both answer, share nothing and know that they are clones."""
import os
import time

from guests import CMDLINE, Lab, Lines
from monitor import Refused


def main():
    with Lab() as lab:
        # loglevel: the guest's kernel says on the console when it reseeds.
        m, port = lab.boot_lines("source", cmdline=CMDLINE + " loglevel=6")
        g = Lines(port)
        assert g.ask("ping").startswith("pong 1 ")
        assert g.ask("write before") == "wrote"
        assert g.ask("paint 5 3") == "painted"
        g.close()
        memory, state = lab.path("memory"), lab.path("state")
        try:
            m.snapshot(memory=memory, state=state)
            raise AssertionError("a running machine was saved")
        except Refused as e:
            assert "paused" in e.message, e
        m.ask("pause")
        began = time.monotonic()
        m.snapshot(memory=memory, state=state)
        print(f"saved in {(time.monotonic() - began) * 1000:.0f} ms: state {os.path.getsize(state)} bytes, "
              f"memory {os.stat(memory).st_blocks // 2048} MiB")
        m.ask("resume")
        g = Lines(port)
        assert g.ask("ping").startswith("pong 2 "), "the source goes on"
        g.close()

        disks = {"rootfs": lab.path("source.rootfs"), "scratch": lab.path("source.scratch")}
        clones = []
        for name in ("first", "second"):
            began = time.monotonic()
            c, port = lab.clone(name, memory=memory, state=state, **disks)
            started = time.monotonic()
            clones.append((c, Lines(port)))
            answer = clones[-1][1].ask("ping")
            print(f"{name}: started {(started - began) * 1000:.0f} ms, first answer {(time.monotonic() - began) * 1000:.0f} ms")
            assert answer.startswith("pong 2 "), answer
        for i, (c, g) in enumerate(clones):
            assert g.ask("painted 5 3") == "wrong 0"
            assert g.ask("read") == "read before"
            assert g.ask(f"write clone{i}") == "wrote"
            assert g.ask(f"paint {i + 10} 2") == "painted"
        for c, _ in clones:
            c.console_wait("crng reseeded due to virtual machine fork")
        for i, (c, g) in enumerate(clones):
            assert g.ask("read") == f"read clone{i}", "clones share no disk"
            assert g.ask(f"painted {i + 10} 2") == "wrong 0", "clones share no memory"
            assert g.ask("clocksource") == "clocksource kvm-clock"
            assert "soft lockup" not in c.console_text()


if __name__ == "__main__":
    main()
