"""The Python side of the kernel: one method for each request the core passes on.

Each takes the content of a request and returns the content of its reply. What
escapes from here (an interrupt can strike anywhere) the core answers itself.
"""

import base64
import faulthandler
import os
import sys
import threading
import warnings
from pathlib import Path

import _carrel
import carrel_cell
import carrel_comm
import carrel_facade
import carrel_history
import carrel_identity
import carrel_io
import carrel_prepare
import carrel_source
import carrel_traits
from carrel_shell import ZMQInteractiveShell, config, safe_str
from IPython import __version__ as ipython_version
from IPython.core.completer import provisionalcompleter, rectify_completions
from IPython.utils.tokenutil import token_at_cursor

VERSION = "0.1"


def create(prepared):
    """Make the kernel. prepared: warm everything up and leave no trace."""
    carrel_io.install()
    carrel_source.install()
    carrel_traits.install()
    carrel_comm.install()
    # The kernel's own threads hold nothing that a forked child would miss.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded, use of fork", DeprecationWarning)
    kernel = Kernel()
    if prepared:
        carrel_prepare.prepare(kernel)
    return kernel


class Kernel:
    def __init__(self):
        self.shell = ZMQInteractiveShell.instance(config=config())
        self.shell.runner = carrel_cell.Runner(self.shell)
        self.shell.kernel = carrel_facade.Facade(self.shell)
        self.shell.questions.install()
        self.environment = carrel_identity.Environment()
        sys.path.insert(0, "")

    # -- life

    def start(self, fd):
        """In the process that serves: fd is the saved standard error."""
        self.enable_crash_text(fd)
        # asyncio.get_event_loop() is the cells' loop, in every cell.
        self.shell.loops.get()
        self.shell.history_manager.save_from_now()

    @staticmethod
    def enable_crash_text(fd):
        """Let a crash tell where it happened."""
        faulthandler.enable(fd)
        enable = faulthandler.enable

        def enable_on_saved(file=None, all_threads=True):
            # Descriptor 2 is read by this process itself: nobody is left to
            # read it after a crash.
            to_stderr = file is None or file is sys.stderr or file == 2
            enable(file=fd if to_stderr else file, all_threads=all_threads)

        faulthandler.enable = enable_on_saved

    def begin_process(self, env):
        """In a process just forked from the prepared parent."""
        carrel_identity.reseed()
        self.environment.own_values(env)
        self.shell.starting_dir = os.getcwd()
        self.shell.history_manager.dir_hist[:] = [Path.cwd()]

    def identity(self, content):
        entropy = base64.b64decode(content.get("entropy") or "")
        self.environment.replace({str(k): str(v) for k, v in (content.get("env") or {}).items()})
        carrel_identity.reseed(entropy)
        return {"status": "ok"}

    def shutdown(self):
        import atexit

        self.shell.history_manager.writeout_cache()
        atexit._run_exitfuncs()

    # -- requests

    def execution_count(self):
        return self.shell.execution_count

    def kernel_info(self):
        version = "%d.%d.%d" % sys.version_info[:3]
        return {
            "status": "ok",
            "protocol_version": "5.5",
            "implementation": "carrel-python",
            # What a cell means is IPython's: clients compare its version.
            "implementation_version": f"{ipython_version}+carrel{VERSION}",
            "language_info": {
                "name": "python",
                "version": version,
                "mimetype": "text/x-python",
                "codemirror_mode": {"name": "ipython", "version": sys.version_info[0]},
                "pygments_lexer": "ipython%d" % sys.version_info[0],
                "nbconvert_exporter": "python",
                "file_extension": ".py",
            },
            "banner": f"Python {version} in Carrel (IPython {ipython_version})",
            "help_links": [],
            "supported_features": ["kernel subshells"],
        }

    def execute(self, content):
        shell = self.shell
        code = content["code"]
        silent = bool(content.get("silent", False))
        store = bool(content.get("store_history", not silent)) and not silent
        shell.begin(content)
        count = shell.execution_count
        error = self._run(code, store, silent)
        if store and error:
            self.count_failed(count)
        if error is None:
            expressions = content.get("user_expressions") or {}
            reply = {
                "status": "ok",
                "payload": shell.payload_manager.read_payload(),
                "user_expressions": shell.user_expressions(expressions) if expressions else {},
            }
        else:
            reply = {"status": "error", "payload": [], "user_expressions": {}, **error}
        if reply["payload"]:
            shell.payload_manager.clear_payload()
        reply["execution_count"] = count
        self.note_background()
        return reply

    def note_background(self):
        """Have the loop run between cells when something was left to it."""
        if threading.current_thread() is threading.main_thread():
            _carrel.set_background(self.shell.loops.settle())

    def idle(self):
        self.shell.loops.idle()
        self.note_background()

    def comm(self, kind, header, content, metadata, buffers):
        msg = {"header": header, "msg_id": header.get("msg_id"), "msg_type": kind, "parent_header": {},
               "metadata": metadata, "content": content, "buffers": [memoryview(b) for b in buffers]}
        getattr(carrel_comm.manager, kind)(None, None, msg)
        self.note_background()

    def comm_info(self, content):
        wanted = content.get("target_name")
        comms = {key: {"target_name": comm.target_name} for key, comm in list(carrel_comm.manager.comms.items())
                 if wanted is None or comm.target_name == wanted}
        return {"status": "ok", "comms": comms}

    # -- subshells

    def begin_thread(self, subshell_id):
        """The calling thread is to be one of Python's."""
        thread = threading._DummyThread()
        thread.name = "Subshell-" + subshell_id[:8]

    def end_thread(self):
        self.shell.loops.close()
        with threading._active_limbo_lock:
            threading._active.pop(threading.get_ident(), None)

    def count_failed(self, count):
        """IPython counts a cell that it cannot transform twice, or not at all."""
        self.shell.execution_count = count + 1

    def _run(self, code, store, silent):
        """Run a cell; what it ended with, as the content of an error, or None."""
        shell = self.shell
        try:
            result = shell.run_cell(code, store_history=store, silent=silent)
        except BaseException as e:
            shell.showtraceback()
            return shell.cell.shown_error or {"ename": type(e).__name__, "evalue": safe_str(e), "traceback": []}
        error = result.error_before_exec or result.error_in_exec
        if error is None:
            return shell.cell.result_error
        if shell.cell.shown_error:
            return shell.cell.shown_error
        return {"ename": type(error).__name__, "evalue": safe_str(error), "traceback": []}

    def complete(self, content):
        code = content.get("code", "")
        pos = content.get("cursor_pos")
        pos = len(code) if pos is None else max(0, min(int(pos), len(code)))
        with provisionalcompleter():
            found = list(rectify_completions(code, self.shell.Completer.completions(code, pos)))
        types = [
            {
                "start": c.start,
                "end": c.end,
                "text": c.text,
                "type": c.type or "<unknown>",
                "signature": getattr(c, "signature", "") or "",
            }
            for c in found
        ]
        return {
            "status": "ok",
            "matches": [c.text for c in found],
            "cursor_start": found[0].start if found else pos,
            "cursor_end": found[0].end if found else pos,
            "metadata": {"_jupyter_types_experimental": types},
        }

    def inspect(self, content):
        code = content.get("code", "")
        pos = content.get("cursor_pos")
        pos = len(code) if pos is None else max(0, min(int(pos), len(code)))
        name = token_at_cursor(code, pos)
        reply = {"status": "ok", "found": False, "data": {}, "metadata": {}}
        if not name:
            return reply
        try:
            bundle = self.shell.object_inspect_mime(name, detail_level=int(content.get("detail_level", 0)))
        except KeyError:
            return reply
        reply.update(found=True, data=bundle)
        return reply

    def is_complete(self, content):
        status, indent = self.shell.input_transformer_manager.check_complete(content.get("code", ""))
        reply = {"status": status}
        if status == "incomplete":
            reply["indent"] = " " * (indent or 0)
        return reply

    def history(self, content):
        return {"status": "ok", "history": carrel_history.answer(self.shell.history_manager, content)}
