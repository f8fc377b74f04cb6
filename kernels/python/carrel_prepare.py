"""What a prepared parent does before it forks kernels.

Imports what most sessions import and runs once what a user does first, so that
no kernel pays for it; then removes every trace, so that each starts empty.
"""

import contextlib
import gc
import importlib
import os
import sys

# Named in the order of importing; what an image does not have is left out.
LIBRARIES = ("numpy", "pandas", "matplotlib", "matplotlib.pyplot", "requests")

CELLS = (
    "print('warm', 1)",
    "%time sum(range(10))",
    "!true",
    "1 + 1",
    "def f():\n    raise ValueError('warm')\nf()",
    "import asyncio\nawait asyncio.sleep(0)",
)
PANDAS_CELL = """
import pandas as pd
df = pd.DataFrame({'a': ['x', 'y', 'x'], 'b': [1.5, 2, 3]})
"""
PLOT_CELL = """
import matplotlib.pyplot as plt
plt.plot([1, 2, 3], label='warm'); plt.title('warm'); plt.legend()
"""
# What fails without a network is told by a long chain of exceptions.
REQUEST_CELL = """
import requests
requests.get('http://127.0.0.1:9/')
"""


def prepare(kernel):
    # A parent with threads could not fork safely, and kernels of one small
    # machine gain nothing from a pool of them.
    had = os.environ.get("OPENBLAS_NUM_THREADS")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    # As in a cell: pandas looks for get_ipython() when it is imported, and shows wide tables by that.
    with kernel.shell.builtin_trap:
        found = [name for name in LIBRARIES if _import(name)]
    if had is None:
        del os.environ["OPENBLAS_NUM_THREADS"]
    with _silence():
        _warm_up(kernel, found)
    _forget(kernel)
    _check_threads()
    gc.collect()
    # Collections in the kernels leave these objects alone, so that the pages
    # they lie in stay shared.
    gc.freeze()


def _import(name):
    try:
        importlib.import_module(name)
        return True
    except ImportError:
        return False


@contextlib.contextmanager
def _silence():
    saved = os.dup(1), os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    try:
        yield
    finally:
        for fd, old in zip((1, 2), saved):
            os.dup2(old, fd)
            os.close(old)
        os.close(null)


def _warm_up(kernel, found):
    cells = list(CELLS)
    if "pandas" in found:
        cells.append(PANDAS_CELL)
    if "matplotlib.pyplot" in found:
        kernel.shell.enable_matplotlib("inline")
        cells.append(PLOT_CELL)
    if "requests" in found:
        cells.append(REQUEST_CELL)
    for code in cells:
        kernel.execute({"code": code, "user_expressions": {"e": "1"}})
    kernel.complete({"code": "import os\nos.pat", "cursor_pos": 16})
    kernel.inspect({"code": "print", "cursor_pos": 5, "detail_level": 0})
    kernel.is_complete({"code": "for i in range(3):"})


def _forget(kernel):
    shell = kernel.shell
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
    shell.reset(new_session=False)
    manager = shell.history_manager
    manager.input_hist_parsed[:] = [""]
    manager.input_hist_raw[:] = [""]
    manager.output_hist_reprs.clear()
    manager._i00 = manager._i = manager._ii = manager._iii = ""
    shell.execution_count = 1
    shell.last_execution_result = None
    shell.last_execution_succeeded = True
    shell.cell.current_cell = ""
    shell.cell.shown_error = shell.cell.result_error = None
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        if hasattr(sys, name):
            delattr(sys, name)
    _forget_cells(shell)
    # The event loop holds descriptors that every kernel would share.
    shell.loops.close()


def _forget_cells(shell):
    import linecache

    for name in shell.compile._filename_map:
        linecache.cache.pop(name, None)
        getattr(linecache, "_ipython_cache", {}).pop(name, None)
    shell.compile._filename_map.clear()


def _check_threads():
    n = len(os.listdir("/proc/self/task"))
    if n != 1:
        raise RuntimeError(f"a library started {n - 1} threads while it was imported; kernels cannot be forked safely")
