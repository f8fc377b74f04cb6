#!/usr/bin/python3
"""jupyter_kernel_test against the Python kernel as an ordinary kernelspec.

usage: kernel_suites.py debian|newest

debian: Debian's jupyter_kernel_test and jupyter_client; newest: those of
tests/clients/python-requirements.txt. All must pass, and nothing is skipped.
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

# Of the newest suite; Debian's has no test of the greeting.
LEAST = {"debian": 12, "newest": 13}


def main():
    which = sys.argv[1]
    python = clients.DEBIAN if which == "debian" else clients.newest()
    if subprocess.run([python, "-c", "import jupyter_kernel_test"], capture_output=True, check=False).returncode:
        clients.skip("Python's jupyter_kernel_test is missing (apt-get install python3-jupyter-kernel-test)")
    folder = tempfile.mkdtemp(prefix="carrel-suite-")
    try:
        got = subprocess.run([python, os.path.join(HERE, "python_samples.py")], env=clients.environment(folder),
                             cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(got.stdout)
    ran = re.search(r"^Ran (\d+) tests", got.stdout, re.M)
    assert got.returncode == 0, "the suite failed"
    assert ran and int(ran[1]) >= LEAST[which], "fewer tests ran than the suite has"
    assert "skipped" not in got.stdout, "a test was skipped"


if __name__ == "__main__":
    main()
