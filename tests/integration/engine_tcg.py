#!/usr/bin/python3
"""Engine tcg on real QEMU: boot, snapshot, clones, limits of the jail, every way to end."""
import hashlib
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from engine import CLIENT_UID, UID_BASE, Host, Raw  # noqa: E402

CLONES = 5


def digest(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def status(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def private_mb(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith("Private_Dirty")) // 1024


def check_jail(pid, uids):
    s = status(pid)
    assert len(set(s["Uid"].split())) == 1 and int(s["Uid"].split()[0]) in uids, s["Uid"]
    assert len(set(s["Gid"].split())) == 1 and int(s["Gid"].split()[0]) in uids, s["Gid"]
    assert s["Groups"].strip() == "", s["Groups"]
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(s[name], 16) == 0, (name, s[name])
    assert s["NoNewPrivs"] == "1" and s["Seccomp"] == "2", s
    assert os.listdir(f"/proc/{pid}/root") == [], os.listdir(f"/proc/{pid}/root")
    for ns in ("pid", "mnt", "net", "ipc", "uts"):
        assert os.readlink(f"/proc/{pid}/ns/{ns}") != os.readlink(f"/proc/self/ns/{ns}"), ns
    with open(f"/proc/{pid}/net/dev", encoding="utf-8") as f:
        devices = [line.split(":")[0].strip() for line in f if ":" in line]
    assert devices == ["lo"], devices


def make_template(host, d):
    files = host.files("template", template=True)
    began = time.monotonic()
    d.start("template", "template", files)
    d.wait("started template")
    up = time.monotonic()
    g = host.guest("template")
    assert g.ask("ping").startswith("pong 1 ")
    print(f"boot: QEMU {up - began:.2f} s, guest {time.monotonic() - began:.2f} s")
    assert g.ask("clocksource") == "clocksource tsc"
    assert g.ask("disks") == "disks ROOT read-only"
    assert g.ask("write before") == "wrote"
    assert g.ask("fill 7") == "filled"
    check_jail(host.qemu("template"), range(UID_BASE, UID_BASE + 1024))
    check_jail(host.keeper("template"), range(UID_BASE + 1024, UID_BASE + 2048))
    g.close()
    d.say("pause", "template")
    d.wait("done template 0")
    began = time.monotonic()
    d.say("save", "template", files["state"], "-")
    d.wait("done template 0")
    print(f"save: {(time.monotonic() - began) * 1000:.0f} ms, {os.path.getsize(files['state'])} bytes of device state")
    d.say("stop", "template", "asked")
    d.wait("ended template asked")
    d.say("free", "template")
    return files


def start_clone(host, d, template, name, deadline_ms=0):
    files = host.clone_files(template, name)
    began = time.monotonic()
    d.start(name, "clone", files, deadline_ms)
    d.wait(f"started {name}")
    running = time.monotonic()
    g = host.guest(name)
    assert g.ask("ping").startswith("pong 2 "), "the clone goes on where the template was saved"
    print(f"clone {name}: running {(running - began) * 1000:.0f} ms, "
          f"first answer {(time.monotonic() - began) * 1000:.0f} ms")
    return g


def clones(host, d, template):
    before = digest(template["ram"])
    guests = [start_clone(host, d, template, f"clone-{i}") for i in range(CLONES)]
    for i, g in enumerate(guests):
        assert g.ask("sum") == "sum 7 7"
        assert g.ask("read") == "read before"
        assert g.ask(f"fill {20 + i}") == "filled"
        assert g.ask(f"write disk-{i}") == "wrote"
    for i, g in enumerate(guests):
        assert g.ask("sum") == f"sum {20 + i} {20 + i}", "memory of clones is apart"
        assert g.ask("read") == f"read disk-{i}", "disks of clones are apart"
        print(f"clone-{i}: {private_mb(host.qemu(f'clone-{i}'))} MiB private")
    assert digest(template["ram"]) == before, "clones cannot touch the snapshot"
    uids = {status(host.qemu(f"clone-{i}"))["Uid"] for i in range(CLONES)}
    assert len(uids) == CLONES, "each clone has a user of its own"
    return guests


def pause_and_resume(host, d, guests):
    d.say("pause", "clone-0")
    d.wait("done clone-0 0")
    guests[0].say("ping")
    guests[0].s.settimeout(0.5)
    try:
        assert guests[0].s.recv(1) == b"", "a paused machine does not answer"
        raise AssertionError("the link of a paused machine was closed")
    except TimeoutError:
        pass
    d.say("resume", "clone-0")
    d.wait("done clone-0 0")
    guests[0].s.settimeout(30)
    assert guests[0].s.recv(64).startswith(b"pong 3 ")


def ways_to_end(host, d, guests):
    guests[0].say("off")
    assert "power off" in d.wait("ended clone-0 crashed(0)")
    guests[1].say("panic")
    assert "Its console said: Kernel panic - not syncing: " in d.wait("ended clone-1 crashed(0)")
    os.kill(host.qemu("clone-2"), signal.SIGSEGV)
    d.wait("ended clone-2 crashed(SIGSEGV)")
    os.kill(host.keeper("clone-3"), signal.SIGKILL)
    d.wait("ended clone-3 crashed")
    d.say("stop", "clone-4", "idle")
    d.say("stop", "clone-4", "asked")
    d.wait("ended clone-4 idle")
    for i in range(CLONES):
        guests[i].close()
        d.say("free", f"clone-{i}")


def console_is_bounded(host, d, template):
    g = start_clone(host, d, template, "loud")
    assert g.ask("flood") == "flooded"
    path = os.path.join(host.run_dir, "loud", "console.log")
    until = time.monotonic() + 20
    while True:
        with open(path, "rb") as f:
            console = f.read()
        assert len(console) <= 64 * 1024, len(console)
        if b"flood ends" in console:
            break
        assert time.monotonic() < until, "the end of the console is not kept"
        time.sleep(0.05)
    d.say("stop", "loud", "asked")
    d.wait("ended loud asked")
    d.say("free", "loud")


def broken_snapshot(host, d, template):
    files = host.clone_files(template, "broken")
    files["state"] = files["scratch"] + ".state"
    with open(template["state"], "rb") as f, open(files["state"], "wb") as out:
        out.write(f.read(20000) + os.urandom(2000))
    os.chown(files["state"], CLIENT_UID, CLIENT_UID)
    d.start("broken", "clone", files)
    line = d.wait("ended broken crashed(1)")
    assert "QEMU ended: " in line, line
    d.say("free", "broken")


def refused_starts(host, d, template):
    files = host.clone_files(template, "refused")
    d.start("refused", "clone", files | {"state": "-"})
    assert "The device state is missing." in d.wait("ended refused crashed | ")
    d.say("free", "refused")
    d.start("refused", "clone", files | {"ram": files["rootfs"]})
    assert "The guest memory file is not 128 MiB long." in d.wait("ended refused crashed | ")
    d.say("free", "refused")
    assert not os.path.exists(os.path.join(host.run_dir, "refused"))


def frozen_ends(host, d, template):
    g = start_clone(host, d, template, "frozen")
    raw = Raw(host)
    stat = raw.ask("stat", "frozen")
    assert stat["running"] == 1 and stat["memory"] > 0 and stat["cpu"] > 0, stat
    assert raw.ask("freeze", "frozen")["error"] == 0
    g.say("ping")
    g.s.settimeout(0.5)
    try:
        raise AssertionError(f"a frozen machine answered {g.s.recv(64)!r}")
    except TimeoutError:
        pass
    assert raw.ask("thaw", "frozen")["error"] == 0
    g.s.settimeout(30)
    assert g.s.recv(64).startswith(b"pong 3 ")
    assert raw.ask("freeze", "frozen")["error"] == 0
    d.say("deadline", "frozen", 300)
    d.wait("ended frozen deadline")
    d.say("free", "frozen")
    raw.close()


def out_of_memory_is_named(host):
    """A host limit far below the machine's need: the kernel kills QEMU, and the reason says so."""
    raw = Raw(host)
    reply = raw.start("greedy", "boot", host.files("greedy"), host_memory_mb=128)
    if reply["error"] == 0:
        assert raw.ended("greedy")["reason"] == "out-of-memory"
        assert raw.ask("forget", "greedy")["error"] == 0
    else:
        assert "out-of-memory" in reply["message"], reply
    raw.close()


def main():
    with Host() as host:
        d = host.driver()
        d.say("fingerprint")
        assert "accel=tcg,Nehalem" in d.wait("fingerprint 0 QEMU emulator version ")
        template = make_template(host, d)
        guests = clones(host, d, template)
        pause_and_resume(host, d, guests)
        ways_to_end(host, d, guests)
        console_is_bounded(host, d, template)
        broken_snapshot(host, d, template)
        refused_starts(host, d, template)
        frozen_ends(host, d, template)
        out_of_memory_is_named(host)
        d.end()
        left = [name for name in os.listdir(host.run_dir) if not name.startswith(".")]
        assert not left, f"runtime directories of freed machines: {left}"


if __name__ == "__main__":
    main()
