"""Comms: channels between objects of the user's code and the client (widgets).

The functions and classes are those that the package `comm` has, so that
ipywidgets and others find them: under its own name where it is not installed,
in its place where it is, and as ipykernel.comm.
"""

import asyncio
import importlib.machinery
import logging
import sys
import threading
import types
import uuid

import _carrel

log = logging.getLogger("carrel.comm")


class Comm:
    """One end of a channel. primary: this end opened it."""

    def __init__(self, target_name="comm", data=None, metadata=None, buffers=None, comm_id=None, primary=True,
                 target_module=None, topic=None, _open_data=None, _close_data=None, **kwargs):
        self.comm_id = comm_id or uuid.uuid4().hex
        self.primary = primary
        self.target_name = target_name
        self.target_module = target_module
        self.topic = topic or f"comm-{self.comm_id}"
        self._open_data = _open_data or {}
        self._close_data = _close_data or {}
        self._on_msg = self._on_close = None
        self._closed = True
        self._waiting = None
        if primary:
            self.open(data=data, metadata=metadata, buffers=buffers)
        else:
            self._closed = False

    def __del__(self):
        # At the interpreter's end nobody is told.
        if not self._closed and not sys.is_finalizing():
            self.close(deleting=True)

    def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
        """Send a message about this comm."""
        # An answer that a cell awaits is handed to that cell's loop.
        loop = asyncio._get_running_loop()
        self._waiting = loop and (loop, threading.get_ident())
        content = {"data": {} if data is None else data, "comm_id": self.comm_id, **keys}
        _carrel.publish(msg_type, content, metadata or {}, buffers)

    def open(self, data=None, metadata=None, buffers=None):
        manager.register_comm(self)
        self._closed = False
        try:
            self.publish_msg("comm_open", self._open_data if data is None else data, metadata, buffers,
                             target_name=self.target_name, target_module=self.target_module)
        except BaseException:
            self._closed = True
            manager.unregister_comm(self)
            raise

    def close(self, data=None, metadata=None, buffers=None, deleting=False):
        if self._closed:
            return
        self._closed = True
        self.publish_msg("comm_close", self._close_data if data is None else data, metadata, buffers)
        manager.unregister_comm(self)

    def send(self, data=None, metadata=None, buffers=None):
        self.publish_msg("comm_msg", data, metadata, buffers)

    def on_msg(self, callback):
        """Call callback(message) for each message of the client; None: nobody."""
        self._on_msg = callback

    def on_close(self, callback):
        """Call callback(message) when the client closes; None: nobody."""
        self._on_close = callback

    def handle_msg(self, msg):
        if self._on_msg is None:
            return
        events = _shell_events()
        events("pre_execute")
        self._on_msg(msg)
        events("post_execute")

    def handle_close(self, msg):
        if self._on_close is not None:
            self._on_close(msg)


BaseComm = Comm


def _shell_events():
    # What a callback draws is shown as after a cell.
    from IPython import get_ipython

    shell = get_ipython()
    return shell.events.trigger if shell else lambda name: None


class CommManager:
    """The open comms, and what is called when the client opens one."""

    def __init__(self, **kwargs):
        self.comms = {}
        self.targets = {}
        self.kernel = kwargs.get("kernel")

    def register_target(self, target_name, f):
        """f(comm, message) is called for each comm the client opens; or "module.function"."""
        if isinstance(f, str):
            module, _, name = f.rpartition(".")
            __import__(module)
            f = getattr(sys.modules[module], name)
        self.targets[target_name] = f

    def unregister_target(self, target_name, f):
        return self.targets.pop(target_name)

    def register_comm(self, comm):
        self.comms[comm.comm_id] = comm
        return comm.comm_id

    def unregister_comm(self, comm):
        self.comms.pop(comm.comm_id, None)

    def get_comm(self, comm_id):
        comm = self.comms.get(comm_id)
        if comm is None:
            log.debug("no such comm: %s", comm_id)
        return comm

    # -- messages of the client

    def comm_open(self, stream, ident, msg):
        content = msg["content"]
        target = self.targets.get(content.get("target_name", ""))
        comm = create_comm(comm_id=content["comm_id"], primary=False, target_name=content.get("target_name", ""))
        self.register_comm(comm)
        if target is None:
            log.error("no target is registered for comms of the name %r", content.get("target_name"))
        else:
            try:
                target(comm, msg)
                return
            except Exception:
                log.exception("a comm could not be opened")
        # The client learns that nobody is there.
        comm.close()

    def comm_msg(self, stream, ident, msg):
        comm = self.get_comm(msg["content"].get("comm_id"))
        if comm is None:
            return
        loop, thread = comm._waiting or (None, None)
        if loop and loop.is_running() and thread != threading.get_ident():
            loop.call_soon_threadsafe(self._handle, comm.handle_msg, msg)
        else:
            self._handle(comm.handle_msg, msg)

    def comm_close(self, stream, ident, msg):
        comm = self.comms.pop(msg["content"].get("comm_id"), None)
        if comm is None:
            return
        comm._closed = True
        self._handle(comm.handle_close, msg)

    @staticmethod
    def _handle(handler, msg):
        try:
            handler(msg)
        except Exception:
            log.exception("a comm's callback failed")


manager = CommManager()


def create_comm(*args, **kwargs):
    """Open a comm to the client."""
    return Comm(*args, **kwargs)


def get_comm_manager():
    """The manager of this kernel's comms."""
    return manager


# ---- where others look for them

NAMES = {"Comm": Comm, "BaseComm": Comm, "DummyComm": Comm, "CommManager": CommManager,
         "create_comm": create_comm, "get_comm_manager": get_comm_manager}
PATCHED = frozenset(("create_comm", "get_comm_manager"))
OWN = frozenset(("comm", "comm.base_comm", "ipykernel.comm", "ipykernel.comm.comm", "ipykernel.comm.manager"))


class _Loader:
    @staticmethod
    def create_module(spec):
        return types.ModuleType(spec.name, __doc__)

    @staticmethod
    def exec_module(module):
        module.__dict__.update(NAMES)


class Finder:
    """comm and ipykernel.comm are this module, under every name others import them by."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in OWN:
            return None
        if name.partition(".")[0] == "comm":
            found = importlib.machinery.PathFinder.find_spec(name, path, target)
            if found and found.loader:
                # What is installed has more than is needed here: only its factories are ours.
                return _patched(found) if name == "comm" else found
        return importlib.machinery.ModuleSpec(name, _Loader, is_package=name in ("comm", "ipykernel.comm"))


def _patched(spec):
    execute = spec.loader.exec_module

    def exec_module(module):
        execute(module)
        for name in PATCHED:
            setattr(module, name, NAMES[name])

    spec.loader.exec_module = exec_module
    return spec


def install():
    sys.meta_path.insert(0, Finder)
