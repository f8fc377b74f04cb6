#!/usr/bin/python3
"""jupyter_kernel_test, as Debian has it, over the Bash kernel on this machine.

Bash has no value of a cell, so test_execute_result is skipped, as that suite wants
it; everything else is run, the history with cells that only print.
"""
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIP = 77

try:
    import jupyter_kernel_test
except ImportError as e:
    print(f"skipped: {e.name} is missing (apt-get install python3-jupyter-kernel-test)")
    sys.exit(SKIP)

NAME = "carrel-bash"
PNG = b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgAAACAAAB4iG8MwAAAABJRU5ErkJggg=="


class BashTests(jupyter_kernel_test.KernelTests):
    kernel_name = NAME
    language_name = "bash"
    file_extension = ".sh"
    code_hello_world = "echo hello, world"
    code_stderr = "echo wrong >&2"
    completion_samples = [
        {"text": "suite_func", "matches": ["suite_function"]},
        {"text": "echo $SUITE_V", "matches": ["$SUITE_VARIABLE"]},
        {"text": "cat suite\\ f", "matches": ["suite\\ file"]},
    ]
    complete_code_samples = ["ls", "for i in 1 2; do echo $i; done", "cat <<END\nx\nEND"]
    incomplete_code_samples = ["if true", "echo 'x", "cat <<END\nx", "ls |", "echo \\"]
    invalid_code_samples = ["fi", "echo )", "}"]
    code_page_something = "echo?"
    code_generate_error = "false"
    code_display_data = [
        {"code": "display suite.png", "mime": "image/png"},
        {"code": "cat suite.png | display", "mime": "image/png"},
        {"code": "echo '<b>x</b>' | displayHTML", "mime": "text/html"},
        {"code": "echo 'alert(1)' | displayJS", "mime": "application/javascript"},
    ]
    code_history_pattern = "echo a*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "echo"
    code_clear_output = "clear"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.kc.execute_interactive("suite_function() { :; }; SUITE_VARIABLE=1", timeout=20)

    def test_history(self):
        self.code_execute_result = [{"code": "echo a1"}, {"code": "echo b2"}]
        super().test_history()


def main():
    subprocess.run(["make", "-s", "build/carrel-bash"], cwd=TOP, check=True, stdout=subprocess.DEVNULL)
    folder = tempfile.mkdtemp(prefix="carrel-suite-")
    try:
        with open(os.path.join(TOP, "kernels", "bash", "kernel.json"), encoding="ascii") as f:
            spec = json.load(f)
        spec["argv"][0] = os.path.join(TOP, "build", "carrel-bash")
        where = os.path.join(folder, "kernels", NAME)
        os.makedirs(where)
        with open(os.path.join(where, "kernel.json"), "w", encoding="ascii") as f:
            json.dump(spec, f)
        os.environ.update(JUPYTER_PATH=folder, JUPYTER_RUNTIME_DIR=folder, HOME=folder)
        os.chdir(folder)
        with open("suite.png", "wb") as f:
            f.write(base64.b64decode(PNG))
        with open("suite file", "w", encoding="ascii"):
            pass
        suite = unittest.defaultTestLoader.loadTestsFromTestCase(BashTests)
        result = unittest.TextTestRunner(verbosity=2).run(suite)
    finally:
        os.chdir("/")
        shutil.rmtree(folder, ignore_errors=True)
    skipped = {test.id().rsplit(".", 1)[1] for test, _ in result.skipped}
    assert skipped == {"test_execute_result"}, skipped
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
