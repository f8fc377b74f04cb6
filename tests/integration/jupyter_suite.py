#!/usr/bin/python3
"""jupyter_kernel_test (Debian's) against carrel-python, through carrel kernel into a microVM."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import TOP, Appliance, skip  # noqa: E402

try:
    import jupyter_kernel_test
except ImportError:
    skip("Debian's python3-jupyter-kernel-test is not installed")


class Python(jupyter_kernel_test.KernelTests):
    kernel_name = "carrel-python"
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    completion_samples = [{"text": "zi", "matches": {"zip"}}]
    complete_code_samples = ["1", "print('hello, world')", "def f(x):\n  return x*2\n\n\n"]
    incomplete_code_samples = ["print('''hello", "def f(x):\n  x*2"]
    invalid_code_samples = ["import = 7q"]
    code_page_something = "zip?"
    code_generate_error = "raise"
    code_execute_result = [{"code": "1+2+3", "result": "6"}, {"code": "[n*n for n in range(1, 4)]", "result": "[1, 4, 9]"}]
    code_display_data = [{"code": "from IPython.display import HTML, display; display(HTML('<b>test</b>'))",
                          "mime": "text/html"},
                         {"code": "from IPython.display import Math, display; display(Math('\\\\frac{1}{2}'))",
                          "mime": "text/latex"}]
    code_history_pattern = "1?2*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"


def main():
    with Appliance() as a, tempfile.TemporaryDirectory(prefix="carrel-suite-") as prefix:
        subprocess.run([os.path.join(TOP, "build", "carrel"), "kernelspec", "install", "--prefix", prefix], check=True,
                       stdout=subprocess.DEVNULL)
        os.environ.update(JUPYTER_PATH=os.path.join(prefix, "share/jupyter"), JUPYTER_RUNTIME_DIR=prefix,
                          CARREL_URL=f"http://127.0.0.1:{a.port}", CARREL_TOKEN=a.token)
        os.chdir(tempfile.mkdtemp(dir=prefix))
        result = unittest.TextTestRunner(sys.stdout, verbosity=2).run(unittest.defaultTestLoader.loadTestsFromTestCase(Python))
        os.chdir("/")
    sys.exit(0 if result.wasSuccessful() and result.testsRun else 1)


main()
