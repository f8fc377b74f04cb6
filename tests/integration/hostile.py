#!/usr/bin/python3
"""Hostile and careless code in a sandbox of ENGINE (tcg, jail, kvm): the tables of tests/lib/hostile.

usage: ENGINE=tcg hostile.py [CASE…]   (words of cases' names; without any, all but those of root, whose template
takes minutes to be made: `hostile.py root:` plays them)
"""
import os
import sys
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from appliance import Refused  # noqa: E402
from hostile import exhaust, root, surface, transfers  # noqa: E402
from hostile.bench import Bench  # noqa: E402

CASES = [*exhaust.CASES, *surface.CASES, *transfers.CASES, *root.CASES]


def main():
    cases = [c for c in CASES if (not sys.argv[1:] and not c.root) or any(word in c.name for word in sys.argv[1:])]
    assert cases, "there is no such case"
    failed = []
    with Bench(os.environ.get("ENGINE") or "tcg") as b:
        for case in cases:
            # The lab's outer machine has not what a template is built with.
            if case.root and b.own_kernel and not b.root_template and not os.environ.get("CARREL_LAB"):
                root.template(b)
            if why := b.plays(case):
                print(f"{case.name}: not played, {why}", flush=True)
                continue
            try:
                b.play(case)
            except (AssertionError, OSError, ValueError, Refused):
                failed.append(case.name)
                print(f"{case.name}: FAILED\n{traceback.format_exc()}{b.ended()}", flush=True)
                b.shared = None  # what it left behind is not the next one's
    assert not failed, failed


main()
