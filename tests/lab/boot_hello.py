#!/usr/bin/python3
"""Debian's cloud kernel boots to user space, by both entries, and sees the machine it shall see."""
import os
import time

from monitor import HELLO, Monitor, image, initramfs

KERNEL = os.path.join(image(), "vmlinux")
CMDLINE = "console=ttyS0 quiet panic=-1 reboot=t tsc=reliable random.trust_cpu=on"


def hello(**options):
    """-> {fact: value}"""
    initrd = initramfs(HELLO)
    with Monitor() as m:
        began = time.monotonic()
        m.start(kernel=KERNEL, initrd=initrd, cmdline=options.pop("cmdline", CMDLINE), **options)
        m.console_wait("hello: ")
        print(f"user space {time.monotonic() - began:.2f} s after start, {options}")
        assert m.wait_ended() == "the guest powered itself off"
        lines = [line.strip() for line in m.console_text().splitlines()]
    os.unlink(initrd)
    return {words[1]: words[2] if len(words) > 2 else "" for words in
            (line.split(" ", 2) for line in lines if line.startswith("hello: "))}


def one_processor():
    facts = hello()
    print(facts)
    assert "bye" in facts
    assert facts["clocksource"] in ("kvm-clock", "tsc"), facts
    assert facts["processors"] == "1", facts
    assert 80 <= int(facts["memory"].split()[0]) <= 128, facts
    assert abs(int(facts["time"]) - time.time()) < 60, facts
    assert 50 <= int(facts["slept"].split()[0]) < 5000, facts
    flags = facts["flags"].split()
    assert "svm" not in flags and "vmx" not in flags and "hypervisor" in flags, flags
    if os.environ.get("CARREL_LAB"):
        assert "xsave" not in flags and "avx" not in flags, flags


def several_processors():
    assert hello(vcpus=2)["processors"] == "2"


def pvh_entry():
    assert "bye" in hello(flags=("pvh",))


def memory_past_the_hole():
    facts = hello(memory_mb=3584)
    assert 3300 <= int(facts["memory"].split()[0]) <= 3584, facts


if __name__ == "__main__":
    one_processor()
    several_processors()
    pvh_entry()
    memory_past_the_hole()
