#!/usr/bin/python3
"""jupyter_kernel_test against a kernel as an ordinary kernelspec.

usage: kernel_suites.py debian|newest native|machine [python|bash]...

debian: Debian's jupyter_kernel_test and jupyter_client; newest: those of
tests/clients/python-requirements.txt. native: the kernel on this machine;
machine: `carrel kernel` and a microVM. All must pass, and nothing is skipped.
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
from appliance import Appliance  # noqa: E402

# Of the newest suite; Debian's has no test of the greeting.
LEAST = {"debian": 12, "newest": 13}


def suite(python, which, language, env):
    folder = tempfile.mkdtemp(prefix="carrel-suite-")
    try:
        got = subprocess.run([python, os.path.join(HERE, language + "_samples.py")], env=env, cwd=folder,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(got.stdout, flush=True)
    ran = re.search(r"^Ran (\d+) tests", got.stdout, re.M)
    assert got.returncode == 0, "the suite failed"
    assert ran and int(ran[1]) >= LEAST[which], "fewer tests ran than the suite has"
    assert "skipped" not in got.stdout, "a test was skipped"


def in_machine(python, which, languages, folder):
    with Appliance() as a:
        env = clients.remote_environment(folder, a)
        for language in languages:
            suite(python, which, language, env)
            left = a.json("GET", "/v1/sandboxes")["sandboxes"]
            assert left == [], left


def main():
    which, where, *languages = sys.argv[1:]
    languages = languages or ["python", "bash"]
    python = clients.DEBIAN if which == "debian" else clients.newest()
    if subprocess.run([python, "-c", "import jupyter_kernel_test"], capture_output=True, check=False).returncode:
        clients.skip("Python's jupyter_kernel_test is missing (apt-get install python3-jupyter-kernel-test)")
    folder = tempfile.mkdtemp(prefix="carrel-suite-")
    try:
        if where == "machine":
            in_machine(python, which, languages, folder)
        else:
            env = clients.environment(folder, ["carrel-" + language for language in languages])
            for language in languages:
                suite(python, which, language, env)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
