"""jupyter_kernel_test's groups for the Bash kernel; run by kernel_suites.py."""
import base64
import unittest

import jupyter_kernel_test

PNG = b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgAAACAAAB4iG8MwAAAABJRU5ErkJggg=="


class BashKernelTests(jupyter_kernel_test.KernelTests):
    kernel_name = "carrel-bash"
    language_name = "bash"
    file_extension = ".sh"
    code_hello_world = "echo hello, world"
    code_stderr = "echo wrong >&2"
    completion_samples = [
        {"text": "suite_func", "matches": {"suite_function"}},
        {"text": "echo $SUITE_V", "matches": {"$SUITE_VARIABLE"}},
        {"text": "cat suite\\ f", "matches": {"suite\\ file"}},
    ]
    complete_code_samples = ["ls", "for i in 1 2; do echo $i; done", "cat <<END\nx\nEND"]
    incomplete_code_samples = ["if true", "echo 'x", "cat <<END\nx", "ls |", "echo \\"]
    invalid_code_samples = ["fi", "echo )", "}"]
    code_page_something = "echo?"
    code_generate_error = "false"
    code_execute_result = [
        {"code": "echo $((6 * 7)) | displayResult", "result": "42"},
        {"code": "printf 'a\\nb\\n\\n' | displayResult", "result": "a\nb"},
        {"code": "displayResult suite.png", "mime": "image/png"},
    ]
    code_display_data = [
        {"code": "display suite.png", "mime": "image/png"},
        {"code": "cat suite.png | display", "mime": "image/png"},
        {"code": "echo '<b>x</b>' | displayHTML", "mime": "text/html"},
        {"code": "echo 'alert(1)' | displayJS", "mime": "application/javascript"},
    ]
    code_history_pattern = "echo*6*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "echo"
    code_clear_output = "clear"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.kc.execute_interactive("suite_function() { :; }; SUITE_VARIABLE=1", timeout=60)


if hasattr(jupyter_kernel_test, "IopubWelcomeTests"):

    class BashWelcomeTests(jupyter_kernel_test.IopubWelcomeTests):
        kernel_name = "carrel-bash"
        support_iopub_welcome = True


if __name__ == "__main__":
    # In the folder that the kernel sees.
    with open("suite.png", "wb") as f:
        f.write(base64.b64decode(PNG))
    with open("suite file", "w", encoding="ascii"):
        pass
    unittest.main(verbosity=2)
