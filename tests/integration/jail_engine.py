#!/usr/bin/python3
"""The rules above struct engine_ops in vmm/engine.h, held against the engine jail, as far as an engine that saves
nothing has them: beginning, end, deadline, pause, resume, adoption."""
import contextlib
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from engine import Host, skip  # noqa: E402
from images import CACHE, newest_image  # noqa: E402

MEMORY_MB = 256
SOON_S = 10


class Bench:
    def __init__(self, host):
        self.host = host
        self.dir = newest_image()
        if not self.dir:
            skip(f"no guest image below {CACHE}: make image makes one")
        self.d = host.driver("jail")

    def files(self, name):
        return {"rootfs": os.path.join(self.dir, "rootfs.ext4"), "guest": os.path.join(self.dir, "guest.ext4"),
                "scratch": self.host.copy_file(os.path.join(self.dir, "scratch.ext4"), name + ".scratch")}

    def start(self, name, **kw):
        self.d.start(name, "boot", self.files(name), memory_mb=MEMORY_MB, **kw)
        self.d.wait(f"started {name}")

    def done(self, name, task):
        self.d.say(task, name)
        self.d.wait(f"done {name} 0")

    def end(self, name, reason="asked"):
        self.d.say("stop", name, reason)
        self.d.wait(f"ended {name} {reason}")
        self.d.say("free", name)

    def ticks(self, name):
        """Of all that is inside."""
        found = subprocess.run(["pgrep", "--ns", str(self.host.qemu(name)), "--nslist", "pid"], capture_output=True, text=True)
        total = 0
        for pid in found.stdout.split():
            with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="ascii") as f:
                total += sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13]))
        return total


def stands_still(b, name):
    before = b.ticks(name)
    time.sleep(1)
    return b.ticks(name) == before


def tasks(b):
    b.start("turns")
    b.done("turns", "resume")  # runs already
    b.d.say_at_once("pause turns", "resume turns")
    b.d.wait("error turns Device or resource busy")
    b.d.wait("done turns 0")
    b.done("turns", "pause")  # paused already
    assert stands_still(b, "turns")
    b.d.say("save", "turns", b.host.empty_file("state"), b.host.empty_file("pages"))
    b.d.wait("error turns Operation not supported")
    b.done("turns", "resume")
    b.end("turns")


def ends_in_every_state(b):
    b.d.start("early", "boot", b.files("early"), memory_mb=MEMORY_MB)
    b.d.say("stop", "early", "asked")
    line = b.d.wait("")
    if line.startswith("started early"):
        line = b.d.wait("ended early")
    assert line.startswith("ended early asked"), line
    b.d.say("free", "early")
    b.start("frozen")
    b.done("frozen", "pause")
    b.d.say("stop", "frozen", "first")
    b.d.say("stop", "frozen", "second")
    b.d.wait("ended frozen first")
    b.d.say("free", "frozen")


def alive(pid):
    with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    return False


def deadlines(b):
    """With carrel-spawn and carreld away, paused."""
    b.start("late", deadline_ms=3000)
    b.done("late", "pause")
    keeper = b.host.keeper("late")
    os.kill(b.d.p.pid, signal.SIGSTOP)
    os.kill(b.host.spawn.pid, signal.SIGSTOP)
    began = time.monotonic()
    while alive(keeper) and time.monotonic() - began < SOON_S:
        time.sleep(0.1)
    assert not alive(keeper), "it outlived its deadline"
    os.kill(b.host.spawn.pid, signal.SIGCONT)
    os.kill(b.d.p.pid, signal.SIGCONT)
    b.d.wait("ended late deadline")
    b.d.say("free", "late")


def adoption(b):
    """By another carreld, under another carrel-spawn: as it was."""
    b.start("runs")
    b.start("stands")
    b.done("stands", "pause")
    b.d.kill()
    b.host.kill_spawn()
    assert stands_still(b, "stands")
    b.host.start_spawn()
    b.d = b.host.driver("jail")
    for name in ("runs", "stands"):
        b.d.say("adopt", name)
        b.d.wait(f"started {name}")
    assert stands_still(b, "stands")
    b.done("stands", "resume")
    b.done("runs", "resume")
    b.end("stands")
    os.kill(b.host.keeper("runs"), signal.SIGKILL)
    b.d.wait("ended runs crashed")
    b.d.say("free", "runs")


def what_does_not_fit(b):
    files = b.files("odd")
    b.d.start("odd", "clone", files | {"ram": b.host.empty_file("ram"), "state": b.host.empty_file("st")}, memory_mb=MEMORY_MB)
    b.d.wait("error odd Operation not supported")
    b.d.start("odd", "boot", files | {"rootfs": b.host.empty_file("rootfs")}, memory_mb=MEMORY_MB)
    assert "must belong to root" in b.d.wait("ended odd crashed"), "an image of anybody's was mounted"
    b.d.say("free", "odd")
    b.d.start("torn", "boot", b.files("torn") | {"scratch": b.host.empty_file("torn.scratch")}, memory_mb=MEMORY_MB)
    assert "mount its disk" in b.d.wait("ended torn crashed")
    b.d.say("free", "torn")


def denied(b):
    """What carreld asks for is not enough: carrel-spawn has the operator's word."""
    b.d.start("denied", "boot", b.files("denied"), memory_mb=MEMORY_MB)
    assert "do not allow" in b.d.wait("ended denied crashed")
    b.d.say("free", "denied")


def main():
    with Host(jail=False) as host:
        b = Bench(host)
        denied(b)
        print("denied", flush=True)
        b.d.end()
    with Host() as host:
        b = Bench(host)
        for part in (tasks, ends_in_every_state, deadlines, adoption, what_does_not_fit):
            part(b)
            print(part.__name__, flush=True)
        b.d.end()


main()
