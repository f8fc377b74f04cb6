#!/usr/bin/python3
"""The monitor's tables of system calls and what it does are the same: no call without a row, no row without a call.

One life of a machine under tests/lab/calls.c: boot, disk, port, balloon, pause, save, clone, save of what changed and of
all, snapshots that do not fit, the end. That the filters themselves are in force is every other test's part.
"""
import os
import struct
import subprocess

from guests import CMDLINE, Lab, Lines, Port
from monitor import CALLS, Refused

FILTERS = ("start", "main", "vcpu")
# Rows that this life need not use: a hostile driver's reset of a busy disk (tests/unit/vmm_filter.c has it), and what
# malloc() takes or leaves, as it finds its heap.
ELSEWHERE = {("io_uring_enter 0", "vcpu"), ("brk", "main")}

CPUID_MAX, MSRS_MAX, CPUID_ENTRY = 256, 256, 40
VCPU_SIZE = 144 + 312 + 4096 + 392 + 128 + 1024 + 64 + 16 + CPUID_MAX * CPUID_ENTRY + MSRS_MAX * 16
VCPU_TSC = 144 + 312 + 4096 + 392 + 128 + 1024 + 64 + 4
VCPU_CPUID = VCPU_TSC + 12
HEADER_SIZE, HEADER_SUM = 48, 24
XSAVE = 1 << 26  # of CPUID 1's ecx


def crc64(data):
    crc = 0xFFFFFFFFFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xC96C5795D7870F42 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFFFFFFFFFF


def changed_state(path, out, change):
    """A state file of one vCPU, changed and sealed again (vmm/snapshot/state.h)."""
    with open(path, "rb") as f:
        data = bytearray(f.read())
    change(data, len(data) - VCPU_SIZE)
    struct.pack_into("<Q", data, HEADER_SUM, 0)
    struct.pack_into("<Q", data, HEADER_SUM, crc64(data[:HEADER_SIZE]) ^ crc64(data[HEADER_SIZE:]))
    with open(out, "wb") as f:
        f.write(data)
    return out


def another_clock(data, vcpu):
    khz, = struct.unpack_from("<I", data, vcpu + VCPU_TSC)
    struct.pack_into("<I", data, vcpu + VCPU_TSC, khz // 2)


def with_xsave(data, vcpu):
    for i in range(CPUID_MAX):
        at = vcpu + VCPU_CPUID + i * CPUID_ENTRY
        function, _, _, _, _, ecx = struct.unpack_from("<6I", data, at)
        if function == 1:
            struct.pack_into("<I", data, at + 20, ecx | XSAVE)
            return
    raise AssertionError("no CPUID leaf 1 in the state")


def boot_as_the_keeper_does(lab):
    """-> (monitor, port): carrel-keeper hands the sockets over when it starts it."""
    port = Port(lab.dir, "source")
    m = lab.monitor(agent=port.listener)
    m.start(kernel=os.path.join(lab.image, "vmlinux"), initrd=lab.lines_initrd("source"), cmdline=CMDLINE, vcpus=1,
            **lab.lines_disks("source"))
    return m, port


def source(lab):
    m, port = boot_as_the_keeper_does(lab)
    g = Lines(port)
    assert g.ask("ping").startswith("pong 1 ")
    assert g.ask("dpaint 3 100") == "wrong 0" and g.ask("ddiscard 50") == "discarded"
    m.ask("balloon", balloon_mb=8)
    while m.ask("stat")["balloon_mb"] < 8:
        assert g.ask("ping").startswith("pong ")
    g.close()
    m.ask("pause")
    files = {"memory": lab.path("memory"), "state": lab.path("state")}
    m.snapshot(**files)
    lab.end(m)
    return files


def clone(lab, files, disks):
    m, port = lab.clone("clone", **files, **disks)
    g = Lines(port)
    assert g.ask("paint 4 3") == "painted"
    try:
        m.start(**files, scratch=disks["scratch"], rootfs=disks["rootfs"])
        raise AssertionError("a second machine in one monitor")
    except Refused as e:
        assert "its machine already" in e.message, e
    m.ask("pause")
    m.snapshot(state=lab.path("state.pages"), pages=lab.path("pages"))
    m.snapshot(state=lab.path("state.whole"), memory=lab.path("whole"))
    m.ask("resume")
    g.s.sendall(b"off\n")
    assert m.wait_ended() == "the guest powered itself off"
    lab.end(m)
    return {"memory": files["memory"], "state": lab.path("state.pages"), "pages": lab.path("pages")}


def misfits(lab, files, disks):
    for name, change in (("clock", another_clock), ("xsave", with_xsave)):
        state = changed_state(files["state"], lab.path(name), change)
        port = Port(lab.dir, name)
        m = lab.monitor()
        try:
            m.start(**files | disks | {"state": state}, agent=port.listener)
        except Refused as e:
            print(f"{name}: {e.message}")
        lab.kill(m)


def life():
    with Lab() as lab:
        disks = {"rootfs": lab.path("source.rootfs"), "scratch": lab.path("source.scratch")}
        files = source(lab)
        saved = clone(lab, files, disks)
        m, port = lab.clone("resumed", **saved, **disks)
        g = Lines(port)
        assert g.ask("painted 4 3") == "wrong 0"
        lab.end(m)
        misfits(lab, files, disks)


def faults(rows, seen):
    """What of the tables and what was seen do not fit."""
    used = {tuple(int(n) for n in line.split()[1:]) for line in seen if line.startswith("row ")}
    found = [f"no row allows it: filter {line[5:]}" for line in seen if line.startswith("none ")]
    for line in rows:
        number, filters, name = line.split(None, 2)
        for i, which in enumerate(FILTERS):
            if int(filters) >> i & 1 and (int(number), i) not in used and (name, which) not in ELSEWHERE:
                found.append(f"nothing uses it: row {number}, {name}, of {which}")
    return found


def main():
    calls, rows = f"/tmp/carrel-calls-{os.getpid()}", f"/tmp/carrel-rows-{os.getpid()}"
    os.environ["LAB_CALLS"] = calls
    try:
        life()
        subprocess.run([CALLS, rows], check=True)
        with open(calls, encoding="ascii") as f, open(rows, encoding="ascii") as r:
            table = r.read().splitlines()
            found = faults(table, f.read().splitlines())
    finally:
        for path in (calls, rows):
            if os.path.exists(path):
                os.unlink(path)
    print(f"{len(table)} rows")
    assert not found, "\n".join(found)


if __name__ == "__main__":
    main()
