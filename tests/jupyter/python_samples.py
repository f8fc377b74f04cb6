"""jupyter_kernel_test's groups for the Python kernel; run by kernel_suites.py."""
import unittest

import jupyter_kernel_test


class PythonKernelTests(jupyter_kernel_test.KernelTests):
    kernel_name = "carrel-python"
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    completion_samples = [
        {"text": "zi", "matches": {"zip"}},
        {"text": "print(sor", "matches": {"sorted"}},
        {"text": "import os; os.path.isabs", "matches": {"isabs"}},
    ]
    complete_code_samples = ["1", "print('hello, world')", "def f(x):\n  return x*2\n\n\n"]
    incomplete_code_samples = ["print('''hello", "def f(x):\n  x*2", "if True:"]
    invalid_code_samples = ["import = 7q", "raise = 2", "1 1"]
    code_page_something = "zip?"
    code_generate_error = "raise"
    code_execute_result = [
        {"code": "1+2+3", "result": "6"},
        {"code": "[n*n for n in range(1, 4)]", "result": "[1, 4, 9]"},
        {"code": "from IPython.display import HTML; HTML('<b>b</b>')", "mime": "text/html", "result": "<b>b</b>"},
    ]
    code_display_data = [
        {"code": "from IPython.display import HTML, display; display(HTML('<b>test</b>'))", "mime": "text/html"},
        {"code": "from IPython.display import Math, display; display(Math('\\\\frac{1}{2}'))", "mime": "text/latex"},
        {"code": "from IPython.display import JSON, display; display(JSON({'a': 1}))", "mime": "application/json"},
    ]
    code_history_pattern = "1?2*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"


# The newest suite's own test of the greeting that JEP 65 asks for.
if hasattr(jupyter_kernel_test, "IopubWelcomeTests"):

    class PythonWelcomeTests(jupyter_kernel_test.IopubWelcomeTests):
        kernel_name = "carrel-python"
        support_iopub_welcome = True


if __name__ == "__main__":
    unittest.main(verbosity=2)
