"""carrel-vmm as its owner sees it: the control socket of vmm/machine/control.h.

    with Monitor() as m:
        m.start(kernel=…, initrd=…, cmdline="…", memory_mb=128)
        m.wait_ended()

Leaving the block asks the monitor to quit and checks how it ended.
"""
import array
import contextlib
import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from images import CACHE, newest_image  # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(TOP, "build", "carrel-vmm")
CALLS = os.path.join(TOP, "build", "lab", "calls")
HELLO = os.path.join(TOP, "build", "lab", "hello")
GUEST = os.path.join(TOP, "build", "lab", "guest")
# A boot under nested emulation on a loaded host; a test that passes does not wait.
WAIT_S = 120

VERBS = {"start": 1, "pause": 2, "snapshot": 3, "resume": 4, "stat": 5, "balloon": 6, "quit": 7, "ended": 8, "hello": 9}
FILES = ("kernel", "initrd", "rootfs", "scratch", "agent", "console", "memory", "state", "pages")
STATES = ("empty", "running", "paused", "over")
FLAGS = {"pvh": 1}
REQUEST = struct.Struct("<IIQIIIIII2048s")
REPLY = struct.Struct("<IIQiIIIII192s")
VERSION = 1


def image():
    """-> directory of the newest guest image in the cache"""
    found = newest_image()
    if not found:
        print(f"no guest image below {CACHE}: make image makes one")
        sys.exit(77)
    return found


def cpio_file(name, data, mode=0o100755):
    def pad(b):
        return b + b"\0" * (-len(b) % 4)

    fields = (1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    return pad(b"070701" + b"".join(b"%08x" % f for f in fields) + name.encode() + b"\0") + pad(data)


def initramfs(init, base=None):
    """-> path of an initramfs with that program as /init; base: one that it lies over"""
    with tempfile.NamedTemporaryFile(prefix="initrd-", delete=False) as out, open(init, "rb") as program:
        if base:
            with open(base, "rb") as f:
                data = f.read()
            out.write(data + b"\0" * (-len(data) % 512))
        out.write(cpio_file("init", program.read()) + cpio_file("TRAILER!!!", b"", 0))
        return out.name


class Refused(Exception):
    """The monitor answered with an error."""

    def __init__(self, error, message):
        super().__init__(f"{os.strerror(error)}: {message}")
        self.error, self.message = error, message


class Monitor:
    """agent: a listening socket; then it has all of its own as carrel-keeper gives it, and listens for its owner."""

    def __init__(self, agent=None):
        self.console, console = os.pipe()
        self.console_end = console
        self.text = b""
        self.serial = 0
        self.events = []
        if agent is None:
            self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            own = {"control": theirs.fileno()}
        else:
            self.control, theirs = (socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2))
            theirs.bind(f"\0carrel-lab-{id(self)}")
            theirs.listen(1)
            self.control.connect(theirs.getsockname())
            own = {"control": theirs.fileno(), "agent": agent.fileno(), "console": console}
        self.control.settimeout(WAIT_S)
        argv = [PROGRAM, *(word for name, fd in own.items() for word in ("--" + name, str(fd)))]
        if os.environ.get("LAB_TRACE"):
            argv.append("--trace-steps")
        if calls := os.environ.get("LAB_CALLS"):  # where its system calls are noted: tests/lab/calls.c
            argv = [CALLS, calls, *argv]
        self.p = subprocess.Popen(argv, pass_fds=list(own.values()))
        theirs.close()
        if agent is not None:
            os.close(console)
            self.console_end = None
            assert self._reply()["verb"] == VERBS["hello"]

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None:
            print("console:", self.console_text(), file=sys.stderr)
            self.kill()
            return
        if self.p.poll() is None:
            with contextlib.suppress(OSError):
                self.ask("quit")
        assert self.p.wait(timeout=WAIT_S) == 0, f"the monitor ended with {self.p.returncode}"
        self.control.close()
        os.close(self.console)

    # --- requests ---

    def send(self, verb, fds=None, flags=(), memory_mb=0, vcpus=0, balloon_mb=0, cmdline=""):
        """fds: descriptors by the names of FILES; nobody waits for the reply."""
        self.serial += 1
        fds = fds or {}
        order = [f for f in FILES if f in fds]
        mask = sum(1 << FILES.index(f) for f in order)
        data = REQUEST.pack(VERSION, VERBS[verb], self.serial, mask, sum(FLAGS[f] for f in flags), memory_mb, vcpus,
                            balloon_mb, 0, cmdline.encode())
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fds[f] for f in order]))] if fds else []
        self.control.sendmsg([data], rights)

    def ask(self, verb, fds=None, **request):
        """-> the reply to what send() sends, as a dict; Refused."""
        self.send(verb, fds, **request)
        while True:
            reply = self._reply()
            if reply["serial"] == self.serial:
                break
            self.events.append(reply)
        if reply["error"]:
            raise Refused(-reply["error"], reply["message"])
        return reply

    def _reply(self):
        data = self.control.recv(4096)
        if not data:
            raise EOFError("the monitor closed its control socket")
        v = REPLY.unpack(data)
        return {"verb": v[1], "serial": v[2], "error": v[3], "state": STATES[v[4]], "memory_mb": v[5], "vcpus": v[6],
                "balloon_mb": v[7], "message": v[9].split(b"\0")[0].decode()}

    def start(self, memory_mb=128, vcpus=1, cmdline="", flags=(), agent=None, **files):
        """files: paths by the names of FILES; agent: a listening socket."""
        fds = {}
        try:
            for name, path in files.items():
                fds[name] = os.open(path, (os.O_RDWR if name == "scratch" else os.O_RDONLY) | os.O_CLOEXEC)
            opened = list(fds.values())
            if self.console_end is not None:
                fds["console"] = self.console_end
            if agent is not None:
                fds["agent"] = agent.fileno()
            return self.ask("start", fds, flags=flags, memory_mb=memory_mb, vcpus=vcpus, cmdline=cmdline)
        finally:
            for fd in opened:
                os.close(fd)
            if self.console_end is not None:
                os.close(self.console_end)
                self.console_end = None

    def snapshot(self, **files):
        """files: paths, of state and of memory or pages"""
        return self._snapshot(self.ask, files)

    def snapshot_send(self, **files):
        self._snapshot(self.send, files)

    @staticmethod
    def _snapshot(how, files):
        fds = {name: os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600) for name, path in files.items()}
        try:
            return how("snapshot", fds)
        finally:
            for fd in fds.values():
                os.close(fd)

    def kill(self):
        self.p.kill()
        self.p.wait()

    def wait_ended(self):
        """-> the sentence of the guest's end"""
        while not any(e["verb"] == VERBS["ended"] for e in self.events):
            self.events.append(self._reply())
        return next(e["message"] for e in self.events if e["verb"] == VERBS["ended"])

    # --- the console ---

    def console_read(self, timeout):
        if not select.select([self.console], [], [], timeout)[0]:
            return False
        data = os.read(self.console, 65536)
        self.text += data
        return bool(data)

    def console_text(self):
        while self.console_read(0):
            pass
        return self.text.decode("utf-8", "replace")

    def console_wait(self, text, timeout=WAIT_S):
        end = time.monotonic() + timeout
        while text.encode() not in self.text:
            left = end - time.monotonic()
            assert left > 0 and self.console_read(left), f"no {text!r} on the console: {self.console_text()[-2000:]}"
        return self.console_text()
