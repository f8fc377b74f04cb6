"""Gives a name that does not resolve the reason: this sandbox has no network.

Loaded at every interpreter's start, so it does next to nothing there: socket is
patched when something first imports it. With a network, nothing changes.
"""
import os
import sys

_MESSAGE = (
    "This sandbox has no network: upload the file or wheel from outside (carrel cp, or "
    "PUT /v1/sandboxes/ID/files), or bake the package into the template."
)


def _have_network():
    # A network is a route; the loopback device has none in this table.
    try:
        with open("/proc/net/route", "rb") as routes:
            return routes.read().count(b"\n") > 1
    except OSError:
        return False


def _explained(function, gaierror):
    def resolve(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except gaierror as error:
            if _have_network():
                raise
            raise gaierror(error.errno, _MESSAGE) from None

    resolve.__name__ = function.__name__
    resolve.__qualname__ = function.__qualname__
    resolve.__doc__ = function.__doc__
    return resolve


def _patch(socket):
    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
        setattr(socket, name, _explained(getattr(socket, name), socket.gaierror))


class _SocketImport:
    """Steps aside at the first import of socket and patches what was loaded."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "socket":
            return None
        sys.meta_path.remove(cls)
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            _patch(module)

        spec.loader.exec_module = exec_module
        return spec


def _pip_redirect():
    """`python -m pip` starts the same wrapper as `pip`: it answers without starting pip."""
    words = getattr(sys, "orig_argv", [])
    if words[1:3] != ["-m", "pip"] or "CARREL_PIP" in os.environ or _have_network():
        return
    wrapper = "/usr/local/bin/pip"
    if os.access(wrapper, os.X_OK):
        os.environ["CARREL_PIP_PYTHON"] = sys.executable
        os.execv(wrapper, ["pip", *words[3:]])


_pip_redirect()
if "socket" in sys.modules:
    _patch(sys.modules["socket"])
else:
    sys.meta_path.insert(0, _SocketImport)
