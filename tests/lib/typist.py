"""A person at a terminal: a program on a pty, typed at and read from."""
import contextlib
import os
import pty
import re
import select
import signal
import time

PATIENCE_S = 60


class Typist:
    """with Typist(argv, env, cwd) as t: t.type("ls\\r"); t.wait("pattern")"""

    def __init__(self, argv, env, cwd):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execvpe(argv[0], argv, {**env, "TERM": "xterm"})
        self.seen, self.code = b"", None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            self.end()

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait(self, pattern):
        """-> what came up to the pattern, which is taken off with it."""
        deadline = time.monotonic() + PATIENCE_S
        while not (m := re.search(pattern.encode(), self.seen)):
            ready, _, _ = select.select([self.fd], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"waited in vain for {pattern}: {self.seen[-500:]!r}"
            more = os.read(self.fd, 65536)
            self.seen += more
        before, self.seen = self.seen[:m.end()], self.seen[m.end():]
        return before.decode("utf-8", "replace")

    def end(self):
        """-> the exit code"""
        deadline = time.monotonic() + PATIENCE_S
        with contextlib.suppress(OSError):  # EIO: the other side is closed
            while select.select([self.fd], [], [], max(0, deadline - time.monotonic()))[0]:
                os.read(self.fd, 65536)
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        self.code = os.waitstatus_to_exitcode(status)
        return self.code
