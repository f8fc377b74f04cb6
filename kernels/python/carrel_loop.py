"""The event loops that cells await on, and what goes on between cells.

A task that a cell left behind goes on while nothing is asked. While a cell
awaits something, comm messages are served: it may await their answer.
"""

import asyncio
import os
import signal
import threading

import _carrel


class Loops(threading.local):
    """One loop for each thread that runs cells."""

    loop = None
    pid = 0
    interrupted = False
    has_tasks = False

    def get(self):
        if self.loop is None or self.loop.is_closed() or self.pid != os.getpid():
            self.loop = asyncio.new_event_loop()
            self.pid = os.getpid()
            self.loop.set_task_factory(self.make_task)
            asyncio.set_event_loop(self.loop)
        return self.loop

    def close(self):
        if self.loop is not None and self.pid == os.getpid():
            self.loop.close()
        self.loop = None

    def make_task(self, loop, coro, **options):
        self.has_tasks = True
        return asyncio.Task(coro, loop=loop, **options)

    # -- a cell

    def run(self, coro):
        """Run a cell with top-level await; an interrupt cancels what it waits for."""
        loop = self.get()
        task = loop.create_task(coro)
        fds = self._watch(loop, _carrel.serve_comms) if threading.current_thread() is threading.main_thread() else ()
        try:
            return loop.run_until_complete(task)
        except KeyboardInterrupt:
            self.interrupted = True
            task.cancel()
            return loop.run_until_complete(task)
        finally:
            self._unwatch(loop, fds)

    @staticmethod
    def _watch(loop, callback, at_once=True):
        fds = _carrel.wait_fds()
        for fd in fds:
            loop.add_reader(fd, callback)
        if fds and at_once:
            # What came before the descriptors were watched.
            loop.call_soon(callback)
        return fds

    @staticmethod
    def _unwatch(loop, fds):
        for fd in fds:
            loop.remove_reader(fd)

    # -- between cells

    def settle(self):
        """After each cell of the main thread: is something left to do?"""
        loop = self.loop
        if loop is None or self.pid != os.getpid() or loop.is_closed():
            return False
        # asyncio.run() leaves none: the next cell's tasks are to go on with this one.
        asyncio.set_event_loop(loop)
        try:
            if loop._ready or loop._scheduled or len(loop._selector.get_map()) > 1:
                return True
        except AttributeError:
            # A loop that is not asyncio's own.
            pass
        # Looking at all tasks takes as long as a short cell.
        if self.has_tasks or loop.get_task_factory() != self.make_task:
            self.has_tasks = bool(asyncio.all_tasks(loop))
        return self.has_tasks

    def idle(self):
        """Run until there may be a request."""
        loop = self.get()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        fds = self._watch(loop, loop.stop, at_once=False)
        try:
            loop.run_forever()
        except KeyboardInterrupt:
            # It ended the task's step that ran.
            pass
        finally:
            self._unwatch(loop, fds)
