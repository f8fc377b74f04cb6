"""IPython's shell without a terminal: everything it shows becomes a message."""

import asyncio
import json
import os
import pdb
import signal
import subprocess
import sys
import threading
import traceback
from types import TracebackType

import _carrel
import _signal
from IPython.core import debugger, page, payloadpage
from IPython.core.autocall import IPyAutocall
from IPython.core.interactiveshell import InteractiveShell, InteractiveShellABC
from traitlets import CBool, Instance, Type, default
from traitlets.config import Config

import carrel_history
import carrel_traceback
from carrel_display import MessageDisplayHook, MessageDisplayPublisher
from carrel_io import Questions
from carrel_loop import Loops


# Formatting one frame takes IPython milliseconds, and a recursion has thousands.
TRACEBACK_FRAMES_MAX = 60

# Characters of an error's text and of a line of its traceback: one whose
# message is a whole table must not grow past what a message may hold.
ERROR_TEXT_MAX = 64 * 1024


# An image's own front door to pip: it knows at once that there is no network,
# where `python -m pip` starts an interpreter to find out.
PIP = "/usr/local/bin/pip"


# Without what signal.signal() does for a reader: it is called twice for each cell.
set_signal = _signal.signal


class Exit(IPyAutocall):
    """exit and quit tell the client; the kernel itself ends when it is told to."""

    rewrite = False

    def __call__(self, keep_kernel=False):
        self._ip.payload_manager.write_payload({"source": "ask_exit", "keepkernel": keep_kernel})


def config():
    c = Config()
    # The kernel has its own way to keep it.
    c.HistoryManager.enabled = False
    c.HistoryManager.hist_file = ":memory:"
    return c


class Cell(threading.local):
    """What is known of the cell that a thread runs."""

    content = {}
    current_cell = ""
    displaying_result = False
    shown_error = result_error = None
    left_out = 0
    code_waits = interrupt_waits = False


class ZMQInteractiveShell(InteractiveShell):
    """The name is what pandas, rich and others know a notebook by."""

    displayhook_class = Type(MessageDisplayHook)
    display_pub_class = Type(MessageDisplayPublisher)
    colors_force = CBool(True)
    exiter = Instance(Exit)
    questions = Instance(Questions, args=())
    # Plain attributes: they are read and set for each cell, and traits check.
    execution_count = 1
    last_execution_succeeded = True
    last_execution_result = None
    kernel = None
    cell = Cell()
    loops = Loops()

    @default("exiter")
    def _default_exiter(self):
        return Exit(self)

    # -- start

    def init_environment(self):
        environ = os.environ
        environ["PAGER"] = environ["GIT_PAGER"] = "cat"
        environ.setdefault("TERM", "dumb")
        environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")

    def init_virtualenv(self):
        pass

    def init_hooks(self):
        super().init_hooks()
        self.set_hook("show_in_pager", page.as_hook(payloadpage.page), 99)

    def init_pdb(self):
        super().init_pdb()
        # Python's own debugger answers an interrupt with its next question; IPython's ends.
        debugger.Pdb = pdb.Pdb = debugger.InterruptiblePdb
        pdb.set_trace = debugger.set_trace

    def init_traceback_handlers(self, custom_exceptions):
        super().init_traceback_handlers(custom_exceptions)
        carrel_traceback.install(self)

    def init_history(self):
        self.history_manager = carrel_history.History(shell=self, parent=self)
        self.configurables.append(self.history_manager)

    def init_magics(self):
        super().init_magics()
        self.register_magic_function(lambda line: None, "line", "notebook")
        if os.access(PIP, os.X_OK):
            self.register_magic_function(self.pip, "line", "pip")
        self.loop_runner = self.loops.run

    def pip(self, line):
        """Run pip: %pip install PACKAGE"""
        self.system(f"exec {PIP} {line}", "/bin/sh")

    def enable_gui(self, gui=None):
        if gui not in (None, "", "inline", "agg"):
            raise NotImplementedError(f"there is no display for the {gui} event loop: use %matplotlib inline")

    def ask_exit(self):
        self.exiter()

    # -- one cell

    def begin(self, content):
        code = content["code"]
        self.cell.content = content
        self.cell.current_cell = code
        self.questions.allowed = bool(content.get("allow_stdin", True))
        self.cell.shown_error = None
        self.cell.result_error = None
        self.loops.interrupted = False
        # IPython's own steps before the code may swallow an interrupt.
        self.cell.code_waits, self.cell.interrupt_waits = True, False
        if threading.current_thread() is threading.main_thread():
            set_signal(signal.SIGINT, self.keep_interrupt)
        else:
            # Interrupts are the main shell's.
            self.cell.code_waits = False

    def keep_interrupt(self, signum, frame):
        if self.cell.interrupt_waits:
            # Asked again: what goes on there goes on for long.
            raise KeyboardInterrupt
        self.cell.interrupt_waits = True

    async def run_code(self, code_obj, result=None, *, async_=False):
        if self.cell.code_waits:
            self.cell.code_waits = False
            # Python's own, by which asyncio knows that interrupts are its to handle.
            set_signal(signal.SIGINT, signal.default_int_handler)
            if self.cell.interrupt_waits:
                raise KeyboardInterrupt
        return await super().run_code(code_obj, result, async_=async_)

    def run_cell(self, raw_cell, store_history=False, silent=False, shell_futures=True, cell_id=None):
        plain = not silent and shell_futures and cell_id is None
        codes = self.runner.prepare(raw_cell, self.execution_count) if plain else None
        if codes is None:
            return super().run_cell(raw_cell, store_history, silent, shell_futures, cell_id)
        result = None
        try:
            result = self.runner.run(codes, raw_cell, store_history)
        finally:
            self.events.trigger("post_execute")
            self.events.trigger("post_run_cell", result)
        return result

    def transform_cell(self, raw_cell):
        # Python's own refusal comes where IPython does not expect it.
        if "\0" in raw_cell:
            raise SyntaxError("source code cannot contain null bytes")
        return super().transform_cell(raw_cell)

    def showtraceback(self, exc_tuple=None, *args, **kwargs):
        etype, value, tb = exc_tuple or sys.exc_info()
        if self.loops.interrupted and exc_tuple is None and isinstance(value, asyncio.CancelledError):
            etype, value = KeyboardInterrupt, KeyboardInterrupt()
        tb, self.cell.left_out = shorten(tb)
        try:
            if holds_group(value):
                # IPython prints one to stderr, and no client would see an error.
                lines = traceback.format_exception(etype, value, tb and (tb.tb_next or tb))
                return self._showtraceback(etype, value, lines)
            shorten_chain(value)
            super().showtraceback((etype, value, tb) if etype else None, *args, **kwargs)
        except Exception:
            # An exception whose own attributes raise when they are looked at.
            self._showtraceback(etype, value, [f"{safe_name(etype)}: {safe_str(value)}"])

    def _showtraceback(self, etype, evalue, stb):
        stb = list(stb)
        if self.cell.left_out:
            stb.insert(-1, f"[{self.cell.left_out} frames in the middle of the traceback are left out]")
            self.cell.left_out = 0
        error = {
            "ename": safe_name(etype),
            "evalue": clipped(safe_str(evalue)),
            "traceback": [clipped(str(line)) for line in stb],
        }
        self.cell.shown_error = error
        if self.cell.displaying_result:
            self.cell.result_error = error
        if not _carrel.publish("error", error) and _carrel.is_child():
            print("\n".join(error["traceback"]), file=sys.stderr)

    # -- whose output it is

    def get_parent(self):
        return self.kernel.get_parent()

    def set_parent(self, parent):
        """What this thread and those without a parent of their own print belongs to it."""
        header = json.dumps(parent["header"])
        _carrel.set_parent(header)
        _carrel.set_thread_parent(header)

    def set_thread_parent(self, parent):
        """What this thread prints belongs to it; the token is for reset_thread_parent()."""
        return _carrel.set_thread_parent(json.dumps(parent["header"]))

    def reset_thread_parent(self, token):
        _carrel.reset_thread_parent(token)

    # -- what a cell may call

    def system(self, cmd, shell=None):
        """Run a shell command that writes straight to the cell's output."""
        cmd = self.var_expand(cmd, depth=1)
        # Without a terminal Python children would show nothing until they end.
        sys.stdout.flush()
        sys.stderr.flush()
        env = dict(os.environ)
        env.setdefault("PYTHONUNBUFFERED", "1")
        code = subprocess.call(cmd, shell=True, executable=shell or env.get("SHELL") or "/bin/sh", env=env)
        self.user_ns["_exit_code"] = code

    system_piped = system_raw = system

    def set_next_input(self, text, replace=False):
        self.payload_manager.write_payload({"source": "set_next_input", "text": text, "replace": replace})


def shorten(tb):
    """A traceback without the middle of a deep recursion, and how many frames that is."""
    entries = []
    while tb:
        entries.append(tb)
        tb = tb.tb_next
    left_out = len(entries) - TRACEBACK_FRAMES_MAX
    if left_out <= 0:
        return entries[0] if entries else None, 0
    half = TRACEBACK_FRAMES_MAX // 2
    short = None
    for t in reversed(entries[:half] + entries[-half:]):
        short = TracebackType(short, t.tb_frame, t.tb_lasti, t.tb_lineno)
    return short, left_out


def chain(value):
    """What value came from, and that in turn; a chain can be a ring."""
    seen = {id(value)}
    while value := getattr(value, "__cause__", None) or getattr(value, "__context__", None):
        if id(value) in seen:
            return
        seen.add(id(value))
        yield value


def shorten_chain(value):
    """The same for the exceptions that value came from."""
    for origin in chain(value):
        short, left_out = shorten(origin.__traceback__)
        if left_out:
            origin.__traceback__ = short


def holds_group(value):
    return isinstance(value, BaseExceptionGroup) or any(isinstance(v, BaseExceptionGroup) for v in chain(value))


InteractiveShellABC.register(ZMQInteractiveShell)


def safe_str(value):
    try:
        return str(value)
    except BaseException:
        return f"<{safe_name(type(value))} whose text cannot be made>"


def safe_name(kind):
    try:
        return str(kind.__name__)
    except BaseException:
        return "Exception"


def clipped(text):
    if len(text) <= ERROR_TEXT_MAX:
        return text
    half = ERROR_TEXT_MAX // 2
    return f"{text[:half]}[… {len(text) - 2 * half} characters left out …]{text[-half:]}"
