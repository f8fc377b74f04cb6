"""What runs in the lab's machines: the line-answering guest of tests/lib/engine_guest.c, and the image's own agent.

Both are reached through the port carrel.agent, whose host side is a listening unix socket that the
test makes and hands to the monitor.
"""
import os
import shutil
import socket
import subprocess
import tempfile

from monitor import GUEST, WAIT_S, Monitor, image, initramfs

CMDLINE = "console=ttyS0 quiet panic=-1 reboot=t tsc=reliable random.trust_cpu=on clocksource=kvm-clock"


class Port:
    """The host side of carrel.agent."""

    def __init__(self, directory, name):
        self.path = os.path.join(directory, name + ".sock")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(4)

    def connect(self):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(WAIT_S)
        s.connect(self.path)
        return s


class Lines:
    """A connection to the line-answering guest."""

    def __init__(self, port):
        self.s = port.connect()
        self.f = self.s.makefile("r")

    def ask(self, line):
        self.s.sendall(line.encode() + b"\n")
        return self.f.readline().rstrip("\n")

    def close(self):
        self.f.close()
        self.s.close()


class Lab:
    """A directory with disks, and monitors in it.

        with Lab() as lab:
            m, lines = lab.boot_lines("one")
    """

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="carrel-lab-")
        self.image = image()
        self.monitors = []

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for m in reversed(self.monitors):
            m.__exit__(kind, value, trace)
        shutil.rmtree(self.dir)

    def path(self, name):
        return os.path.join(self.dir, name)

    def sparse(self, name, size, head=b""):
        with open(self.path(name), "wb") as f:
            f.write(head)
            f.truncate(size)
        return self.path(name)

    def copy(self, source, name):
        subprocess.run(["cp", "--sparse=always", source, self.path(name)], check=True)
        return self.path(name)

    def monitor(self, agent=None):
        self.monitors.append(Monitor(agent))
        return self.monitors[-1]

    def kill(self, m):
        self.monitors.remove(m)
        m.kill()

    def end(self, m):
        """Its end now, and how it was is checked."""
        self.monitors.remove(m)
        m.__exit__(None, None, None)

    def lines_disks(self, name):
        return {"rootfs": self.sparse(name + ".rootfs", 1 << 20, b"ROOT"),
                "scratch": self.sparse(name + ".scratch", 64 << 20)}

    def lines_initrd(self, name):
        return shutil.move(initramfs(GUEST, os.path.join(self.image, "initrd")), self.path(name + ".initrd"))

    def boot_lines(self, name, cmdline=CMDLINE, **options):
        """-> (monitor, port) of the line-answering guest, with small disks"""
        port = Port(self.dir, name)
        m = self.monitor()
        m.start(kernel=os.path.join(self.image, "vmlinux"), initrd=self.lines_initrd(name), cmdline=cmdline,
                agent=port.listener, **self.lines_disks(name), **options)
        return m, port

    def boot_agent(self, name, **options):
        """-> (monitor, port) of the image as it is"""
        port = Port(self.dir, name)
        m = self.monitor()
        m.start(kernel=os.path.join(self.image, "vmlinux"), initrd=os.path.join(self.image, "initrd"), cmdline=CMDLINE,
                rootfs=os.path.join(self.image, "rootfs.ext4"),
                scratch=self.copy(os.path.join(self.image, "scratch.ext4"), name + ".scratch"), agent=port.listener,
                **options)
        return m, port

    def clone(self, name, scratch, **files):
        """-> (monitor, port) of a snapshot; scratch is copied"""
        port = Port(self.dir, name)
        m = self.monitor()
        m.start(scratch=self.copy(scratch, name + ".scratch"), agent=port.listener, **files)
        return m, port


# --- the link's first words, kernels/link/record.h ---

HELLO, ACK, VERSION = b"h", b"a", 1


def cobs(record):
    out = b""
    for part in record.split(b"\0"):
        while len(part) >= 254:
            out, part = out + b"\xff" + part[:254], part[254:]
        out += bytes([len(part) + 1]) + part
    return out + b"\0"


def uncobs(data):
    out, at = b"", 0
    while at < len(data):
        code = data[at]
        out += data[at + 1:at + code] + (b"\0" if code < 255 else b"")
        at += code
    return out[:-1]


def agent_hello(port):
    """Connects and greets the agent; returns once it answered this greeting."""
    nonce = os.urandom(16)
    ack = ACK + bytes([VERSION]) + nonce
    with port.connect() as s:
        s.sendall(b"\0" + cobs(HELLO + bytes([VERSION]) + nonce))
        got = b""
        while not any(uncobs(r) == ack for r in got.split(b"\0")[:-1]):
            data = s.recv(65536)
            assert data, f"the port closed after {got!r}"
            got += data
