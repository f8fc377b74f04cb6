"""Standard streams and questions of the kernel.

sys.stdout and sys.stderr write each line to descriptors 1 and 2 at once, so that
the order with C code and children is that of writing; the beginning of a line
waits for its rest for some milliseconds. The core reads the descriptors and
gathers what was written into few messages.
"""

import builtins
import getpass
import io
import os
import sys
import threading

import _carrel
from IPython.core.error import StdinNotImplementedError


class _Out(io.RawIOBase):
    # A built-in is no method: it is called without self, with the bytes.
    write = staticmethod(_carrel.write_out)
    flush = staticmethod(_carrel.flush_out)
    name = "<stdout>"

    def fileno(self):
        return 1

    def writable(self):
        return True


class _Err(_Out):
    write = staticmethod(_carrel.write_err)
    flush = staticmethod(_carrel.flush_err)
    name = "<stderr>"

    def fileno(self):
        return 2


def _text(raw):
    stream = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", write_through=True)
    stream.mode = "w"
    # ipykernel's streams have it: does what is written here reach the client directly?
    stream._is_master_process = lambda: not _carrel.is_child()
    return stream


def install():
    sys.stdout = sys.__stdout__ = _text(_Out())
    sys.stderr = sys.__stderr__ = _text(_Err())
    # What was printed just before would be lost with the threads that send it.
    os._exit = _exit
    sys.stdin = sys.__stdin__ = open(os.devnull, encoding="utf-8")


def _exit(status):
    """Exit to the system with specified status, without normal exit processing."""
    if threading.current_thread() is threading.main_thread() and not _carrel.is_child():
        _carrel.leave()
    os_exit(status)


os_exit = os._exit


class Questions:
    """input() and getpass(), answered by the client when it allows questions."""

    allowed = False

    def install(self):
        builtins.input = self.input
        getpass.getpass = self.getpass

    def _ask(self, prompt, password):
        if not self.allowed or _carrel.is_child():
            raise StdinNotImplementedError(
                "input was asked for, but this client does not answer questions: "
                "put the value into the code instead"
            )
        answer = _carrel.input(str(prompt), password)
        if answer == "\x04":
            raise EOFError("end of input")
        return answer

    def input(self, prompt="", /):
        """Ask the client for a line of text."""
        return self._ask(prompt, False)

    def getpass(self, prompt="Password: ", stream=None, *, echo_char=None):
        """Ask the client for a line of text that is not shown."""
        return self._ask(prompt, True)
