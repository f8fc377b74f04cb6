#!/usr/bin/python3
"""ipykernel's own black-box suites against the Python kernel.

usage: ipykernel_suites.py [PYTEST-ARGUMENT]...

The suites come from ipykernel's source archive, of the version that
tests/clients/python-requirements.txt names, and find our kernel by name.
ipykernel_suites.txt, beside this file, tells every test that is not expected
to pass and why; any other outcome is a failure here.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lib"))
import clients  # noqa: E402

SUITES = ("test_message_spec.py", "test_kernel.py", "test_async.py", "test_subshells.py")
RESULT = re.compile(r"^tests/(\S+?)::(.+?) (PASSED|FAILED|ERROR|SKIPPED|RERUN)", re.M)
LEAST_PASSED = 0.9


def table():
    """{test: (outcome, why)} of those that do not pass."""
    rows = {}
    with open(os.path.join(HERE, "ipykernel_suites.txt"), encoding="utf-8") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                name, outcome, why = line.split(None, 2)
                rows[name] = (outcome, why.strip())
    return rows


def run(folder, arguments):
    python = clients.newest()
    env = clients.environment(folder, ("python3",))
    env["PYTHONPATH"] = HERE
    suites = [] if any(a.startswith("tests/") for a in arguments) else [os.path.join("tests", s) for s in SUITES]
    got = subprocess.run([python, "-m", "pytest", "-p", "other_kernel", "-p", "no:cacheprovider", "-v", "--tb=short",
                          "-o", "addopts=", "-o", "filterwarnings=", "--timeout=40", *suites, *arguments],
                         cwd=clients.source(python, "ipykernel"), env=env, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return got.stdout


def judge(text):
    known, wrong, counted, passed = table(), [], 0, 0
    for suite, name, outcome in RESULT.findall(text):
        if outcome == "RERUN":
            continue
        test = f"{suite[:-3]}::{name}".replace(" ", "_")
        want, why = known.get(test, ("passes", ""))
        is_outcome = {"PASSED": "passes", "SKIPPED": "skipped"}.get(outcome, "fails")
        print(f"{is_outcome:8} {test}" + (f"  ({why})" if why else ""))
        if is_outcome != want:
            wrong.append(f"{test}: {is_outcome}, the table says {want}")
        if want != "skipped":
            counted += 1
            passed += is_outcome == "passes"
    print(f"{passed} of {counted} tests that only need a client pass")
    return wrong, passed, counted


def main():
    folder = tempfile.mkdtemp(prefix="carrel-suite-")
    try:
        text = run(folder, sys.argv[1:])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    wrong, passed, counted = judge(text)
    if wrong or not counted:
        print(text)
        sys.exit("\n".join(wrong) or "no test ran")
    assert passed >= LEAST_PASSED * counted or len(sys.argv) > 1


if __name__ == "__main__":
    main()
