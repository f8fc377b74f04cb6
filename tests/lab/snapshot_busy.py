#!/usr/bin/python3
"""Saved in the middle of writing files: the machine goes on and its clones do, and no byte is lost in either."""
import time

from boot_files import allocated, boot_files
from guests import Lab
from monitor import WAIT_S

SAVES = 3
STEP = 12 << 20  # bytes on the disk between one save and the next


def wait_allocated(path, size):
    end = time.monotonic() + WAIT_S
    while allocated(path) < size:
        assert time.monotonic() < end, f"{allocated(path)} bytes written, not {size}"
        time.sleep(0.05)


def finish(m, port):
    """The files as the guest reads them again."""
    m.console_wait("files: read, 0 wrong", 3 * WAIT_S)
    with port.connect() as s:
        s.sendall(b"\n")
        text = m.console_wait("files: over")
    assert "written, 0 wrong" in text and "error" not in text and "soft lockup" not in text, text
    assert m.wait_ended() == "the guest powered itself off"


def main():
    with Lab() as lab:
        m, port = boot_files(lab, "source")
        m.console_wait("scratch mounted")
        scratch, began = lab.path("source.scratch"), allocated(lab.path("source.scratch"))
        for i in range(SAVES):
            wait_allocated(scratch, began + (i + 1) * STEP)
            m.ask("pause")
            m.snapshot(memory=lab.path(f"memory{i}"), state=lab.path(f"state{i}"))
            lab.copy(scratch, f"saved{i}")
            assert "files: written" not in m.console_text(), "saved too late to mean anything"
            m.ask("resume")
        finish(m, port)
        print(f"the machine was saved {SAVES} times while it wrote")
        rootfs = f"{lab.image}/rootfs.ext4"
        for i in range(SAVES):
            c, port = lab.clone(f"clone{i}", memory=lab.path(f"memory{i}"), state=lab.path(f"state{i}"), rootfs=rootfs,
                                scratch=lab.path(f"saved{i}"))
            finish(c, port)
            lab.end(c)
        print("its clones wrote the rest")


if __name__ == "__main__":
    main()
