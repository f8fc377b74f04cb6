#!/usr/bin/python3
"""Debian 13's compiler and libraries build every host program without a word, and they start."""
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHROOT = os.path.join(TOP, "kernels", "image", "chroot")
PROGRAMS = ["carreld", "carrel-spawn", "carrel-keeper", "carrel", "carrel-preload.so"]
OUT = "/tmp/out"  # inside the chroot: on a tmpfs that goes with it


def main():
    if os.getuid() != 0:
        print("skipped: only root enters the build chroot")
        sys.exit(77)
    subprocess.run([os.path.join(TOP, "kernels", "image", "build"), "--roots"], check=True)
    build = f"make -s -j2 OUT={OUT} {' '.join(f'{OUT}/{p}' for p in PROGRAMS)} 2>&1 | grep -v '^  '; exit ${{PIPESTATUS[0]}}"
    show = f"gcc --version | head -n 1; {OUT}/carrel --version && {OUT}/carreld --routes"
    done = subprocess.run([CHROOT, "--build", "--", "bash", "-c", f"({build}) && {show}"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout)
    assert done.returncode == 0, f"the build in Debian 13's root ended with {done.returncode}"
    assert "warning:" not in done.stdout, "the compiler warns"


main()
