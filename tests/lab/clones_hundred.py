#!/usr/bin/python3
"""A hundred clones of one snapshot at once, in less memory than ten guests would need each for itself; ten of them
answer, and no two of those draw the same random bytes."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from engine import LAB, MEMORY_MB, Host  # noqa: E402

from private import available_mb, private_kib  # noqa: E402

CLONES, ANSWER = 100, 10
START_S = 600  # all of them share one emulated processor


def template(host, d, name):
    """-> the files of a snapshot of a guest that painted its memory"""
    files = host.files(name, template=True)
    d.start(name, "template", files)
    d.wait(f"started {name}", START_S)
    g = host.guest(name)
    assert g.ask("paint 7 1") == "painted"
    g.close()
    for task in (("pause", name), ("save", name, files["state"], "-")):
        d.say(*task)
        d.wait(f"done {name} 0")
    d.say("stop", name, "asked")
    d.wait(f"ended {name} asked")
    d.say("free", name)
    return files


def main():
    os.environ["MONITOR"] = "carrel-vmm"
    with Host() as host:
        d = host.driver("kvm")
        source = template(host, d, "source")
        before, began = available_mb(), time.monotonic()
        names = [f"clone-{i:03}" for i in range(CLONES)]
        for name in names:
            d.start(name, "clone", host.clone_files(source, name))
        d.wait_all([f"started {name}" for name in names], START_S)
        seconds = time.monotonic() - began
        # Connected all: the test's guest looks every 2 ms whether somebody is there.
        connected = [host.guest(name) for name in names]
        guests = connected[::CLONES // ANSWER]
        assert all(g.ask("ping").startswith("pong 1 ") for g in guests)
        drawn = {g.ask("random") for g in guests}
        assert len(drawn) == ANSWER and all(len(r) == len("random ") + 32 for r in drawn), drawn
        assert all(g.ask("painted 7 1") == "wrong 0" for g in guests)
        used = before - available_mb()
        print(f"{CLONES} clones of {MEMORY_MB} MiB started in {seconds:.1f} s; the host has {used} MiB less")
        assert used < CLONES * MEMORY_MB // 10, "the clones do not share their snapshot's memory"
        own = [sum(private_kib(host.qemu(name), MEMORY_MB)) for name in names]
        print(f"private KiB a clone, without its keeper: median {sorted(own)[CLONES // 2]}, most {max(own)}")
        for g in connected:
            g.close()
        for name in names:
            d.say("stop", name, "asked")
        d.wait_all([f"ended {name} asked" for name in names], START_S)
        for name in names:
            d.say("free", name)
        d.end()


if __name__ == "__main__":
    if not LAB and not os.path.exists("/dev/kvm"):
        print("needs KVM: make lab")
        sys.exit(77)
    main()
