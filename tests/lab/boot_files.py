#!/usr/bin/python3
"""ext4 on the disks, by some programs at once; deleted files leave holes; a port outlives its clients."""
import os
import shutil
import time

from guests import CMDLINE, Lab, Lines, Port
from monitor import TOP, initramfs

FILES = os.path.join(TOP, "build", "lab", "files")
FILES_BYTES = 4 * 16 << 20  # what tests/lab/files.c writes


def boot_files(lab, name):
    port = Port(lab.dir, name)
    initrd = lab.path(name + ".initrd")
    shutil.move(initramfs(FILES, os.path.join(lab.image, "initrd")), initrd)
    m = lab.monitor()
    m.start(kernel=os.path.join(lab.image, "vmlinux"), initrd=initrd, cmdline=CMDLINE, agent=port.listener,
            rootfs=os.path.join(lab.image, "rootfs.ext4"),
            scratch=lab.copy(os.path.join(lab.image, "scratch.ext4"), name + ".scratch"))
    return m, port


def allocated(path):
    return os.stat(path).st_blocks * 512


def disks(lab):
    began = time.monotonic()
    m, port = boot_files(lab, "files")
    m.console_wait("files: written, ")
    written = time.monotonic() - began
    text = m.console_wait("files: read, 0 wrong")
    print(f"written {written:.1f} s, read {time.monotonic() - began:.1f} s after start")
    for line in ("root mounted", "scratch mounted", "written, 0 wrong"):
        assert f"files: {line}" in text, text
    full = allocated(lab.path("files.scratch"))
    with port.connect() as s:
        s.sendall(b"\n")
        text = m.console_wait("files: over")
    assert "files: trim done" in text and "error" not in text, text
    assert m.wait_ended() == "the guest powered itself off"
    left = allocated(lab.path("files.scratch"))
    assert full - left > FILES_BYTES * 3 // 4, (full, left)
    print(f"{FILES_BYTES >> 20} MiB written, read and trimmed: {full >> 20} MiB, then {left >> 20} MiB allocated")


def ports(lab):
    """Clients that leave in the middle of a line, with the guest's buffers full."""
    m, port = lab.boot_lines("ports")
    g = Lines(port)
    assert g.ask("ping").startswith("pong 1 ")
    for i in range(20):
        g.s.sendall(b"spew\n")
        for _ in range(i):
            g.f.readline()
        g.close()
        g = Lines(port)
        g.s.sendall(b"ping\n")
        while not g.f.readline().startswith(f"pong {i + 2} "):
            pass
    g.s.sendall(b"off\n")
    assert m.wait_ended() == "the guest powered itself off"
    print("20 clients left in the middle, and the next was heard")


def main():
    with Lab() as lab:
        disks(lab)
        ports(lab)


if __name__ == "__main__":
    main()
