#!/usr/bin/python3
"""The rules above struct engine_ops in vmm/engine.h, held against an engine: engine_conformance.py [tcg|kvm [PART...]]"""
import contextlib
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from engine import CLIENT_UID, WAIT_S, Host  # noqa: E402

ENGINE = sys.argv[1] if len(sys.argv) > 1 else "tcg"  # which monitor runs kvm: MONITOR
CYCLES = 5
ANSWER_S = 4
BLOCKS = 500  # of 4 KiB on the disk


class Bench:
    """A template, and machines of it by name."""

    def __init__(self, host):
        self.host = host
        self.d = host.driver(ENGINE)
        self.count = 0

    def done(self, name, *words, err=0):
        """A task that was accepted -> its sentence."""
        self.d.say(words[0], name, *words[1:])
        return self.d.wait(f"done {name} {err}")

    def refused(self, name, *words, why):
        self.d.say(words[0], name, *words[1:])
        self.d.wait(f"error {name} {why}")

    def end(self, name, reason="asked"):
        self.d.say("stop", name, reason)
        self.d.wait(f"ended {name} {reason}")
        self.d.say("free", name)

    def make_template(self, name):
        files = self.host.files(name, template=True)
        self.d.start(name, "template", files)
        self.refused(name, "pause", why="No such process")  # it has not started
        self.d.wait(f"started {name}")
        g = self.host.guest(name)
        assert g.ask("paint 7 1") == "painted"
        g.close()
        self.refused(name, "save", files["state"], "-", why="Invalid argument")  # it runs
        self.done(name, "pause")
        self.refused(name, "save", files["state"], self.host.empty_file("none"), why="Invalid argument")
        self.done(name, "save", files["state"], "-")
        self.refused(name, "save", files["state"], "-", why="Invalid argument")  # once a pause
        self.end(name)
        return files

    def clone(self, name):
        files = self.host.clone_files(self.template, name)
        self.d.start(name, "clone", files)
        self.d.wait(f"started {name}")
        return files, self.host.guest(name)

    def save(self, name, files):
        """Pauses and saves -> the files that a resume takes, without the disk."""
        self.count += 1
        saved = {f: files[f] for f in ("ram", "rootfs", "scratch")} | {
            f: self.host.empty_file(f"{name}.{self.count}.{f}") for f in ("state", "pages")}
        self.done(name, "pause")
        began = time.monotonic()
        self.done(name, "save", saved["state"], saved["pages"])
        ms = (time.monotonic() - began) * 1000
        self.d.say("verify", saved["pages"])
        data, zero = (int(n) >> 10 for n in self.d.wait("verified 0").split()[2:4])
        print(f"save {name}: {ms:.0f} ms, {data} KiB of pages, {zero} KiB of zeros")
        return saved

    def resume(self, name, saved):
        began = time.monotonic()
        self.d.start(name, "resume", saved)
        self.d.wait(f"started {name}")
        print(f"resume {name}: {(time.monotonic() - began) * 1000:.0f} ms")
        return self.host.guest(name)


def settle(g):
    """Past the answers to lines of the connections before; a connection that the guest does not hear is opened anew."""
    end = time.monotonic() + WAIT_S
    g.s.settimeout(ANSWER_S)
    while True:
        mark = f"mark {time.monotonic_ns()}"
        try:
            g.say("")
            g.say("echo " + mark)
            while g.f.readline() != mark + "\n":
                pass
            break
        except TimeoutError:
            assert time.monotonic() < end, "no answer on any connection"
            g.reopen()
            g.s.settimeout(ANSWER_S)
    g.s.settimeout(WAIT_S)


def tasks_one_at_a_time(b):
    _, g = b.clone("turns")
    b.done("turns", "resume")  # runs already
    b.d.say_at_once("pause turns", "resume turns")
    b.d.wait("error turns Device or resource busy")
    b.d.wait("done turns 0")
    b.done("turns", "pause")  # paused already
    b.done("turns", "resume")
    assert g.ask("painted 7 1") == "wrong 0"
    g.close()
    b.end("turns")


def cycles(b):
    """Memory and disk, changed before each pause, five in a row; every other page is zeroed over the snapshot's."""
    files, g = b.clone("cycle-0")
    for i in range(CYCLES):
        assert g.ask(f"paint {20 + i} {1 + i % 3}") == "painted"
        assert g.ask(f"dpaint {20 + i} {BLOCKS}") == "wrong 0"
        g.close()
        saved = b.save(f"cycle-{i}", files)
        b.end(f"cycle-{i}")
        g = b.resume(f"cycle-{i + 1}", saved)
        # The first ones again: what was not touched since the last pause is private all the same.
        for f in ("pages", "state"):
            os.unlink(saved[f])
        settle(g)
        assert g.ask(f"painted {20 + i} {1 + i % 3}") == "wrong 0"
        assert g.ask(f"dpainted {20 + i} {BLOCKS}") == "wrong 0"
        files = saved
    g.close()
    for i in range(CYCLES, CYCLES + 2):  # and untouched: pages that are only mapped are private, too
        saved = b.save(f"cycle-{i}", files)
        b.end(f"cycle-{i}")
        g = b.resume(f"cycle-{i + 1}", saved)
        files = saved
        if i > CYCLES:
            settle(g)
            assert g.ask(f"painted {19 + CYCLES} {1 + (CYCLES - 1) % 3}") == "wrong 0"
        g.close()
    b.end(f"cycle-{CYCLES + 2}")


def fork(b):
    files, g = b.clone("parent")
    assert g.ask("paint 50 2") == "painted" and g.ask(f"dpaint 50 {BLOCKS}") == "wrong 0"
    g.close()
    saved = b.save("parent", files)
    children = ["child-0", "child-1"]
    copies = [saved | {"scratch": b.host.copy_file(saved["scratch"], c + ".scratch")} for c in children]
    b.done("parent", "resume")
    guests = [b.resume(c, copy) for c, copy in zip(children, copies)] + [b.host.guest("parent")]
    for i, g in enumerate(guests):
        settle(g)
        assert g.ask("painted 50 2") == "wrong 0" and g.ask(f"dpainted 50 {BLOCKS}") == "wrong 0"
        assert g.ask(f"paint {60 + i} 1") == "painted" and g.ask(f"dpaint {60 + i} {BLOCKS}") == "wrong 0"
    for i, g in enumerate(guests):
        assert g.ask(f"painted {60 + i} 1") == "wrong 0" and g.ask(f"dpainted {60 + i} {BLOCKS}") == "wrong 0"
        g.close()
    # The parent can be saved again once it ran.
    b.end("child-0")
    b.end("child-1")
    b.save("parent", files)
    b.end("parent")


def link_in_flight(b):
    """Bytes on their way in both directions while it is paused: the state still fits the memory."""
    files, g = b.clone("flight")
    g.say("spew")
    assert g.f.readline().startswith("spew 0")
    g.s.setblocking(False)
    try:
        while True:
            g.s.send(b"ping\n" * 1000)
    except BlockingIOError:
        pass
    saved = b.save("flight", files)
    b.done("flight", "resume")
    g.s.setblocking(True)
    g.s.settimeout(60)
    while g.f.readline() != "spewed\n":
        pass
    g.close()
    b.end("flight")
    g = b.resume("flown", saved | {"scratch": b.host.copy_file(saved["scratch"], "flown.scratch")})
    settle(g)  # what it said before somebody listened is lost, its last line, too
    assert g.ask("painted 7 1") == "wrong 0"
    g.close()
    b.end("flown")


def full_disk(b):
    small = os.path.join(b.host.dir, "small")
    os.mkdir(small)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=4m,mode=0700,uid={CLIENT_UID}", "none", small], check=True)
    try:
        pages, state = os.path.join(small, "pages"), os.path.join(small, "state")
        for path in (pages, state):
            open(path, "wb").close()
            os.chown(path, CLIENT_UID, CLIENT_UID)
        files, g = b.clone("full")
        assert g.ask("paint 9 1") == "painted"
        g.close()
        b.done("full", "pause")
        line = b.done("full", "save", state, pages, err=-28)
        assert "No space left on device" in line, line
        assert os.path.getsize(pages) == 0, "half a file"
        b.done("full", "resume")
        b.save("full", files)
        b.done("full", "resume")
        with open(os.path.join(small, "rest"), "wb", buffering=0) as f, contextlib.suppress(OSError):
            while f.write(b"x" * 4096):
                pass
        b.done("full", "pause")
        assert "No space left on device" in b.done("full", "save", state, pages, err=-28)
        b.done("full", "resume")
        g = b.host.guest("full")
        settle(g)
        assert g.ask("painted 9 1") == "wrong 0"
        g.close()
        b.end("full")
    finally:
        subprocess.run(["umount", small], check=True)


def changed(b, path, name, at, data):
    copy = b.host.copy_file(path, name)
    with open(copy, "r+b") as f:
        f.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        f.write(data)
    return copy


def sets_that_do_not_fit(b):
    files, g = b.clone("fit")
    assert g.ask("paint 3 1") == "painted"
    g.close()
    first = b.save("fit", files)
    b.done("fit", "resume")
    second = b.save("fit", files)
    b.end("fit")
    cut = b.host.copy_file(first["pages"], "cut.pages")
    os.truncate(cut, os.path.getsize(cut) - 4096)
    short = b.host.copy_file(first["pages"], "short.pages")
    os.truncate(short, 50)
    other = b.make_template("other")
    for what, sentence in (
            ({"pages": second["pages"]}, "was not saved together with this memory"),
            ({"state": second["state"]}, "was not saved together with this memory"),
            ({"state": b.template["state"]}, "was not saved together with this memory"),
            ({"ram": other["ram"]}, "belongs to another snapshot"),
            ({"pages": cut}, "cut off"),
            ({"pages": short}, "cut off"),
            ({"pages": b.host.empty_file("empty.pages")}, "cut off"),
            ({"pages": first["scratch"]}, "no saved memory at all"),
            ({"pages": changed(b, first["pages"], "head.pages", 40, b"damage")}, "damaged (its head)"),
            ({"pages": changed(b, first["pages"], "table.pages", -8, b"damage")}, "damaged (its table)"),
            ({"state": changed(b, first["state"], "bad.state", 5000, b"damage")}, "state is damaged"),
            ({"pages": "-"}, "The saved memory is missing.")):
        b.d.start("misfit", "resume", first | what)
        line = b.d.wait("ended misfit ")
        assert sentence in line, (what, line)
        b.d.say("free", "misfit")
    b.d.start("misfit", "resume", first, memory_mb=256)
    assert "memory file is not 256 MiB long" in b.d.wait("ended misfit ")
    b.d.say("free", "misfit")
    b.d.say("verify", changed(b, first["pages"], "data.pages", 8192, b"damage"))
    b.d.wait("verified -74 ")
    g = b.resume("fit-again", first)
    settle(g)
    assert g.ask("painted 3 1") == "wrong 0"
    g.close()
    b.end("fit-again")


def stop_from_every_state(b):
    files = b.host.clone_files(b.template, "stop")
    state, pages = b.host.empty_file("stop.state"), b.host.empty_file("stop.pages")
    b.d.start("stop", "clone", files)
    b.d.say("stop", "stop", "idle")
    b.d.say("stop", "stop", "asked")
    b.d.wait("ended stop idle")
    b.d.say("stop", "stop", "asked")  # over: no second ended()
    b.d.say("free", "stop")
    for words in (("pause",), ("pause", "save"), ("pause", "save", "resume")):
        b.d.start("stop", "clone", files)
        b.d.wait("started stop")
        for word in words[:-1]:
            b.done("stop", *([word, state, pages] if word == "save" else [word]))
        b.d.say(words[-1], "stop", *((state, pages) if words[-1] == "save" else ()))
        b.d.say("stop", "stop", "asked")
        # The task may just have been done.
        line = b.d.wait("done stop ")
        print("stopped during", words[-1], ":", line)
        assert line.split()[2] in ("0", "-125"), line
        b.d.wait("ended stop asked")
        b.refused("stop", "pause", why="No such process")
        b.d.say("free", "stop")
    b.d.start("stop", "clone", files)
    b.d.wait("started stop")
    saved = b.save("stop", files)
    b.end("stop")
    b.d.start("stop", "resume", saved)
    b.d.say("stop", "stop", "asked")
    b.d.wait("ended stop asked")
    b.d.say("free", "stop")


def killed_by_its_filter(b):
    """What a system call that the monitor's filter forbids comes to."""
    _, g = b.clone("strict")
    g.close()
    os.kill(b.host.qemu("strict"), signal.SIGSYS)
    line = b.d.wait("ended strict crashed(SIGSYS)")
    assert "its filter forbids" in line, line
    b.d.say("free", "strict")


def deadlines(b):
    files, g = b.clone("late")
    g.close()
    b.done("late", "pause")
    b.d.say("deadline", "late", 300)
    b.d.wait("ended late deadline")
    b.d.say("free", "late")
    b.d.start("late", "clone", files)
    b.d.say("deadline", "late", 1)  # before it has started
    line = b.d.lines.get(timeout=60)
    if line.startswith("started late"):
        line = b.d.lines.get(timeout=60)
    assert line.startswith("ended late deadline"), line
    b.d.say("free", "late")
    files, g = b.clone("put-off")
    g.close()
    b.d.say("deadline", "put-off", 500)
    b.d.say("deadline", "put-off", 0)
    saved = b.save("put-off", files)
    b.end("put-off")
    b.d.start("put-off", "resume", saved, deadline_ms=1500)
    b.d.wait("started put-off")
    b.d.wait("ended put-off deadline")
    b.d.say("free", "put-off")


def adopted_as_they_were(b):
    files, g = {}, {}
    for name in ("runs", "paused", "saved", "saving"):
        files[name], g[name] = b.clone(name)
        assert g[name].ask("paint 33 2") == "painted"
        g[name].close()
    b.done("paused", "pause")
    b.save("saved", files["saved"])
    b.done("saving", "pause")
    b.d.say("save", "saving", b.host.empty_file("saving.state"), b.host.empty_file("saving.pages"))
    time.sleep(0.03)
    b.d.kill()
    b.d = b.host.driver(ENGINE)
    for name in files:
        b.d.say("adopt", name)
        b.d.wait(f"started {name} ")
    b.save("paused", files["paused"])
    for name in files:
        b.done(name, "resume")
        guest = b.host.guest(name)
        settle(guest)
        assert guest.ask("painted 33 2") == "wrong 0"
        guest.close()
        saved = b.save(name, files[name])
        b.end(name)
    guest = b.resume("saving-again", saved)
    settle(guest)
    assert guest.ask("painted 33 2") == "wrong 0"
    guest.close()
    b.end("saving-again")


def spawn_restarts_while_saving(b):
    files, g = b.clone("orphan")
    assert g.ask("paint 44 1") == "painted"
    g.close()
    for after in (0.005, 0.02, 0.06):
        b.done("orphan", "pause")
        b.d.say("save", "orphan", b.host.empty_file("orphan.state"), b.host.empty_file("orphan.pages"))
        time.sleep(after)
        b.host.kill_spawn()
        b.host.start_spawn()
        print(b.d.wait("done orphan "))
        b.done("orphan", "resume")
        guest = b.host.guest("orphan")
        settle(guest)
        assert guest.ask("painted 44 1") == "wrong 0", "it is neither frozen nor changed"
        guest.close()
    # The engine's connection to carrel-spawn comes back in a moment of its own.
    lines = []
    while not lines or " -107 " in lines[-1]:
        b.done("orphan", "pause")
        b.d.say("save", "orphan", b.host.empty_file("orphan.state"), b.host.empty_file("orphan.pages"))
        lines.append(b.d.wait("done orphan "))
        b.done("orphan", "resume")
        assert len(lines) < 1000, lines[-1]
    saved = b.save("orphan", files)
    b.end("orphan")
    g = b.resume("found", saved)
    settle(g)
    assert g.ask("painted 44 1") == "wrong 0"
    g.close()
    b.end("found")


PARTS = (tasks_one_at_a_time, cycles, fork, link_in_flight, full_disk, sets_that_do_not_fit, stop_from_every_state,
         killed_by_its_filter, deadlines, adopted_as_they_were, spawn_restarts_while_saving)


def main():
    parts = [part for part in PARTS if part.__name__ in sys.argv[2:] or len(sys.argv) < 3]
    with Host() as host:
        b = Bench(host)
        b.template = b.make_template("template")
        for part in parts:
            print("--", part.__name__, flush=True)
            part(b)
        b.d.end()
        # carrel-spawn removes them when it comes to it.
        end = time.monotonic() + WAIT_S
        while left := [name for name in os.listdir(host.run_dir) if not name.startswith(".")]:
            assert time.monotonic() < end, f"runtime directories of freed machines: {left}"
            time.sleep(0.05)


if __name__ == "__main__":
    main()
