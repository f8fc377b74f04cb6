#!/usr/bin/python3
"""The Python kernel: one process for each test, forked from a prepared parent.

usage: kernel_native.py [--image] [TEST]...

Drives build/carrel-python on this machine, or (--image) the one of the image
inside its root. Skipped where what it needs is not installed.
"""
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import clients

try:
    import cells
    import zmq  # noqa: F401
    from kernel_client import Parent, elapsed, remove, user_folder
except ImportError as e:
    clients.skip(f"{e.name} is missing (apt-get install python3-jupyter-client)")

# ---- output


def test_streams(k):
    r = k.run("import sys\nprint('a'); print('b', file=sys.stderr); print('c')")
    assert r.runs() == [["stdout", "a\n"], ["stderr", "b\n"], ["stdout", "c\n"]], r.runs()
    assert r.reply["execution_count"] == 1 and r.outputs[0].type == "execute_input"
    # Without the rest of its line, and live.
    msg_id = k.start("import time\nprint('.', end='')\ntime.sleep(30)")
    while (m := k.receive(k.iopub)).type != "stream":
        pass
    assert m.content["text"] == "." and m.parent["msg_id"] == msg_id


def test_many_small_writes(k):
    r = k.run("for i in range(10000): print(i)\nprint('hi')")
    assert r.text() == "".join(f"{i}\n" for i in range(10000)) + "hi\n"
    # Few messages when nothing else runs here; bounded by time when much does.
    assert len(r.streams()) < 200
    r = k.run("for i in range(3000): print(i, end=' ', flush=True)")
    assert r.text() == "".join(f"{i} " for i in range(3000))


def test_large_output(k):
    r = k.run("print('x' * 5_000_000)")
    assert r.text() == "x" * 5_000_000 + "\n"
    assert max(m.size for m in r.streams()) < 300_000
    r = k.run("print('\\u4f60' * 300_001)")
    assert r.text() == "\u4f60" * 300_001 + "\n"


def test_a_paused_client(k):
    msg_id = k.start("for i in range(400_000): print('line', i)")
    time.sleep(3)
    r = k.finish(msg_id)
    assert r.text() == "".join(f"line {i}\n" for i in range(400_000))


def test_bytes(k):
    r = k.run("import sys\nsys.stdout.buffer.write(b'a\\xff\\xe4\\xbdb\\x00c\\x1b[0m\\n'); None")
    assert r.text() == "a\ufffd\ufffdb\x00c\x1b[0m\n"
    assert k.run("print('\\udcc3')").text() == "\\udcc3\n"


def test_children_and_c(k):
    r = k.run("import os\nprint('a'); os.system('echo b; echo e >&2'); print('c')")
    assert r.text("stdout") == "a\nb\nc\n" and r.text("stderr") == "e\n"
    r = k.run("import ctypes\nc = ctypes.CDLL(None)\nprint('a'); c.puts(b'b'); print('c'); c.printf(b'd'); None")
    assert r.text() == "a\nb\nc\nd"
    # Holding the interpreter's lock while the pipe is full.
    assert k.run("ctypes.PyDLL(None).printf(b'1' * 3_000_000)").text() == "1" * 3_000_000
    r = k.run("!for i in $(seq 30000); do echo $i; echo $i >&2; done")
    want = "".join(f"{i}\n" for i in range(1, 30001))
    assert r.text("stdout") == want and r.text("stderr") == want
    assert k.run("x = !echo got\nprint(x)").text() == "['got']\n"
    assert k.run("!echo now; sleep 60 &").text() == "now\n"
    assert k.run("%%bash\necho from bash").text() == "from bash\n"


def test_forks(k):
    r = k.run("from multiprocessing import Pool\ndef f(x):\n    print('in', x)\n    return x * 2\n"
              "with Pool(2) as p: r = p.map(f, range(4))\nprint(r)")
    assert sorted(r.text("stdout").splitlines()) == ["[0, 2, 4, 6]", "in 0", "in 1", "in 2", "in 3"]
    # A child that comes back from the cell ends there, and answers nobody.
    r = k.run("import os\npid = os.fork()\nif pid: print(os.waitpid(pid, 0)[1])\nelse: print('child')")
    assert sorted(r.text("stdout").splitlines()) == ["0", "child"], r.text()
    assert k.run("1").status == "ok"


def test_threads(k):
    k.run("import threading, time\ndef f():\n    time.sleep(.3)\n    print('late')\nthreading.Thread(target=f).start()")
    while (m := k.receive(k.iopub)).type != "stream":
        pass
    assert m.content["text"] == "late\n"


# ---- results, displays, plots


def test_results(k):
    assert k.run("6*7").data() == [{"text/plain": "42"}]
    assert k.run("1;").data() == [] and k.run("'a;b'").data() == [{"text/plain": "'a;b'"}]
    assert k.run("import asyncio\nawait asyncio.sleep(0.01)\n_ + 'x'").data() == [{"text/plain": "'a;bx'"}]
    r = k.run("from IPython.display import display, clear_output\n"
              "display({'application/json': {'a': float('nan'), 'b': [float('inf'), 1 << 70]}, 'text/plain': 'x'}, raw=True)")
    assert r.data()[0]["application/json"] == {"a": None, "b": [None, 1.1805916207174113e21]}
    r = k.run("h = display('a', display_id='q'); h.update('b'); clear_output(True)")
    assert r.types == ["display_data", "update_display_data", "clear_output"]
    assert r.outputs[2].content["transient"] == {"display_id": "q"}
    r = k.run("class B:\n    def __repr__(self): raise KeyError('r')\nB()")
    assert r.status == "error" and r.ename == "KeyError" and r.types == ["error"]


def test_data_and_plots(k):
    r = k.run("import pandas as pd\npd.DataFrame({'a': [1, 2]})")
    assert "text/html" in r.data()[0] and "text/plain" in r.data()[0]
    plot = "%matplotlib inline\nimport matplotlib.pyplot as plt\nfor i in range(3):\n    plt.figure(); plt.plot([1, 2])"
    for _ in range(2):
        r = k.run(plot)
        assert r.types == ["display_data"] * 3
        assert all(d["image/png"].startswith("iVBOR") for d in r.data())
    assert k.run("1").types == ["execute_result"]
    assert k.run("plt.ioff(); plt.plot([1]); plt.show()").types == ["display_data"]


def test_counting(k):
    r = k.run("x = 1", silent=True, user_expressions={"foo": "x+1", "bad": "1/0"})
    assert r.reply["user_expressions"]["foo"] == {"status": "ok", "data": {"text/plain": "2"}, "metadata": {}}
    assert r.reply["user_expressions"]["bad"]["ename"] == "ZeroDivisionError"
    assert r.outputs == [] and k.run("print(1)", silent=True).outputs == []
    assert k.run("2", store_history=False).reply["execution_count"] == 1
    assert [k.run(c).reply["execution_count"] for c in ("1", "1/0", "a\0b", "f(", "", "# c", "3")] == [1, 2, 3, 4, 5, 5, 6]
    assert k.run("(In[1], Out)").data() == [{"text/plain": "('1', {1: 1, 6: 3})"}]


def test_source(k):
    k.run("import inspect\ndef g(): return 1\nclass A:\n    x = 1")
    r = k.run("print(inspect.getsource(g) + inspect.getsource(A))")
    assert r.text() == "def g(): return 1\nclass A:\n    x = 1\n\n", r.text()
    r = k.run("import sys\n"
              "print(__name__, '__file__' in globals(), sys.path[0] == '', sys.stdout.isatty(), sys.stdout.encoding)")
    assert r.text() == "__main__ False True False utf-8\n"


# ---- errors


def test_errors(k):
    r = k.run("def f():\n    1/0\nf()")
    assert r.ename == "ZeroDivisionError" and r.types == ["error"]
    assert r.outputs[-1].content == {x: r.reply[x] for x in ("ename", "evalue", "traceback")}
    assert "line 2" in "".join(r.reply["traceback"])
    r = k.run("raise Exception(chr(0xd8ff))")
    assert r.reply["evalue"] == "\ufffd"
    assert k.run("a\0b").ename == "SyntaxError"
    r = k.run("def r(): r()\nr()")
    assert r.ename == "RecursionError" and len("".join(r.reply["traceback"])) < 5000
    assert k.run("bytearray(1 << 50)").ename == "MemoryError"
    assert k.run("class E(Exception):\n    def __str__(self): raise ValueError\nraise E()").ename == "E"
    assert k.run("input('x')").ename == "StdinNotImplementedError"
    assert k.run("raise SystemExit(3)").ename == "SystemExit"
    assert k.run("1").status == "ok"


def plain(traceback):
    # Older IPythons write "In [1]".
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(traceback)).replace("In [", "In[").splitlines()


def test_an_error_status_has_an_error(k):
    """Whatever an exception is made of: clients look for the message."""
    group = "ExceptionGroup('g', [ValueError(1), ExceptionGroup('h', [TypeError(2)])])"
    lying = "class E(Exception):\n    {} = property(lambda s: 1/0)\nraise E('hi')"
    for code, ename in (
        (f"raise {group}", "ExceptionGroup"),
        (f"try: raise {group}\nexcept Exception: {{}}['a']", "KeyError"),
        (lying.format("__cause__"), "E"),
        (lying.format("__traceback__"), "E"),
        (lying.format("__class__"), "E"),
        ("class M(type):\n    __name__ = property(lambda s: 1/0)\n"
         "class E(Exception, metaclass=M): pass\nraise E('hi')", None),
        ("raise ValueError('v' * 20_000_000)", "ValueError"),
    ):
        r = k.run(code)
        assert r.status == "error" and "error" in r.types, (code, r.types)
        assert ename in (None, r.ename), (code, r.ename)
        assert len(r.reply["evalue"]) < 100_000, code
    lines = plain(k.run(f"def f(): raise {group}\nf()").reply["traceback"])
    assert any("TypeError: 2" in line for line in lines), lines
    assert not any("interactiveshell" in line for line in lines), lines


def test_tracebacks(k):
    lines = plain(k.run("import json\ndef f(text):\n    return json.loads(text)\nf('{')").reply["traceback"])
    # The user's frames and the library's look the same: where, and some lines.
    assert "Cell In[1], line 4" in lines and "Cell In[1], line 3, in f(text)" in lines, lines
    assert "----> 4 f('{')" in lines and "----> 3     return json.loads(text)" in lines, lines
    at = next(n for n, line in enumerate(lines) if re.match(r"File .*/json/__init__.py:\d+, in loads\(s, ", line))
    assert any(re.match(r"-+> \d+ +return _default_decoder", line) for line in lines[at:at + 6]), lines
    assert lines[-1].startswith("JSONDecodeError: ")
    # A chain, a file of ten thousand lines, code without a file.
    lines = plain(k.run("try: {}['a']\nexcept KeyError as e: raise ValueError('b') from e").reply["traceback"])
    assert any("direct cause" in line for line in lines) and lines[-1] == "ValueError: b"
    lines = plain(k.run("import pandas\npandas.Series([1], index=['a']).astype('datetime64[x]')").reply["traceback"])
    assert any(re.search(r"pandas/core/generic.py:\d+, in ", line) for line in lines), lines
    lines = plain(k.run("exec(compile('def g(): 1/0\\ng()', 'nowhere', 'exec'))").reply["traceback"])
    assert any("nowhere:1, in g()" in line for line in lines) and lines[-1].startswith("ZeroDivisionError")
    for mode in ("Plain", "Verbose", "Minimal", "Context"):
        k.run(f"%xmode {mode}")
        assert plain(k.run("v = 3; 1/0").reply["traceback"])[-1] == "ZeroDivisionError: division by zero"


def test_odd_requests(k):
    for body in (b'{"code":', b'{"cod":1}', b"[]", b'{"code":7}'):
        r = k.finish(k.send(k.shell, "execute_request", body))
        assert r.status == "error" and r.reply["evalue"]
    r = k.finish(k.send(k.shell, "execute_request", b'{"code":"print(\'\\ud83d \\ud83d\\ude00\')"}'))
    assert r.text() == "\ufffd \U0001f600\n"
    k.shell.send_multipart([b"nonsense"])
    k.send(k.shell, "execute_request", {"code": "1"}, key=b"wrong")
    k.outputs(k.send(k.shell, "unheard_of_request", {}))
    assert k.run("2").data() == [{"text/plain": "2"}]


def test_run_all_stops_at_an_error(k):
    ids = [k.start(c) for c in ("print(1)", "1/0", "print(2)", "print(3)")]
    k.send(k.shell, "kernel_info_request", {})
    assert [k.finish(i).status for i in ids] == ["ok", "error", "aborted", "aborted"]
    assert k.receive(k.shell).content["status"] == "ok"
    for _ in range(20):
        assert k.run("1/0").status == "error" and k.run("4").status == "ok"
    ids = [k.start(c, stop_on_error=False) for c in ("1/0", "5")]
    assert [k.finish(i).status for i in ids] == ["error", "ok"]


# ---- interrupts and input


def interrupted(k, code, **options):
    msg_id = k.start(code, **options)
    time.sleep(0.5)
    began = time.monotonic()
    k.interrupt()
    r = k.finish(msg_id)
    assert r.ename == "KeyboardInterrupt", r.reply
    assert elapsed(began) < 5
    return r


OTHER_THREAD = """import signal, threading, time
threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
time.sleep(60)"""


def test_interrupt(k):
    k.interrupt()
    k.run("x = 41")
    interrupted(k, "while True: pass")
    interrupted(k, "import time\ntime.sleep(60)")
    interrupted(k, "!sleep 60")
    interrupted(k, "import asyncio\nawait asyncio.sleep(60)")
    interrupted(k, "while True: print(1)")
    # The signal comes to another thread, as one that comes just before a system call comes to none.
    interrupted(k, OTHER_THREAD)
    k.run("signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})")
    # In IPython's steps before the code, which swallow exceptions.
    k.run("before = lambda: time.sleep(1)\nget_ipython().events.register('pre_execute', before)")
    interrupted(k, "time.sleep(60)")
    interrupted(k, "%time time.sleep(60)")
    k.run("get_ipython().events.unregister('pre_execute', before)")
    k.interrupt()
    assert k.run("x + 1").data() == [{"text/plain": "42"}]


def test_input(k):
    msg_id = k.start("v = input('name? ')\nprint('hello', v)", allow_stdin=True)
    asked = k.receive(k.stdin)
    assert asked.type == "input_request" and asked.content == {"prompt": "name? ", "password": False}
    k.send(k.stdin, "input_reply", {"value": "Bo"})
    assert k.finish(msg_id).text() == "hello Bo\n"
    msg_id = k.start("import getpass\ngetpass.getpass()", allow_stdin=True)
    assert k.receive(k.stdin).content["password"] is True
    k.interrupt()
    assert k.finish(msg_id).ename == "KeyboardInterrupt"
    # The answer to a question that was interrupted is nobody's.
    k.send(k.stdin, "input_reply", {"value": "stale"})
    time.sleep(0.2)
    msg_id = k.start("input()", allow_stdin=True)
    k.receive(k.stdin)
    k.send(k.stdin, "input_reply", {"value": "fresh"})
    assert k.finish(msg_id).data() == [{"text/plain": "'fresh'"}]


# ---- other requests


def test_requests(k):
    info = k.ask("kernel_info_request", {})
    assert info["status"] == "ok" and info["language_info"]["name"] == "python"
    assert k.ask("kernel_info_request", {}, k.control) == info
    assert "path" in k.ask("complete_request", {"code": "import os\nos.pat", "cursor_pos": 16})["matches"]
    assert k.ask("complete_request", {"code": "\U0001f600; prin", "cursor_pos": 7})["cursor_start"] == 3
    assert k.ask("inspect_request", {"code": "print", "cursor_pos": 3, "detail_level": 0})["found"]
    assert not k.ask("inspect_request", {"code": "nonono", "cursor_pos": 3, "detail_level": 0})["found"]
    ask = lambda code: k.ask("is_complete_request", {"code": code})  # noqa: E731
    assert ask("1")["status"] == "complete" and ask("f(")["status"] == "incomplete" and ask("1 1")["status"] == "invalid"
    k.run("1+1")
    k.run("2+2")
    hist = k.ask("history_request", {"hist_access_type": "tail", "n": 1, "output": True, "raw": True})["history"]
    assert hist == [[0, 2, ["2+2", "4"]]]
    hist = k.ask("history_request", {"hist_access_type": "search", "pattern": "1*", "n": 5, "raw": True})["history"]
    # Before it come those of kernels that ended.
    assert hist[-1] == [0, 1, "1+1"], hist
    assert k.ask("comm_info_request", {}) == {"status": "ok", "comms": {}}
    assert k.run("print?").reply["payload"][0]["source"] == "page"
    assert k.run("exit()").reply["payload"][0]["source"] == "ask_exit"
    assert k.run("get_ipython().set_next_input('n')").reply["payload"] == [
        {"source": "set_next_input", "text": "n", "replace": False}]


def test_identity(k):
    k.run("import os, random\nos.environ['MINE'] = '1'\nrandom.seed(1)")
    k.send(k.shell, "carrel_identity_request", {"entropy": "AAAA", "env": {"GIVEN": "2"}})
    assert k.receive(k.shell).content == {"status": "ok"}
    while k.iopub.poll(200):
        k.iopub.recv_multipart()
    r = k.run("print(os.environ['MINE'], os.environ['GIVEN'], 'PATH' in os.environ, random.random() == 0.13436424411240122)")
    assert r.text() == "1 2 True False\n"
    k.send(k.shell, "carrel_identity_request", {"entropy": "AAAA", "env": {}})
    assert k.receive(k.shell).content == {"status": "ok"}
    while k.iopub.poll(200):
        k.iopub.recv_multipart()
    assert k.run("print(os.environ.get('GIVEN'), 'PATH' in os.environ)").text() == "None True\n"


# ---- the parent: starts and ends


def ended(p, k):
    packet = p.receive()
    assert packet["op"] == "exited" and packet["pid"] == k.pid, packet
    return packet["status"]


def parent_quick_cells_are_ipythons(parent):
    quick, slow = parent.fork("quick"), parent.fork("slow")
    cells.compare(quick, slow)
    for k in (quick, slow):
        k.send(k.control, "shutdown_request", {})
        ended(parent, k)


def parent_starts_empty(p):
    assert p.identity({"GIVEN": "1"}) == {"op": "identity", "ok": True}
    k = p.fork(env={"MINE": "2"}, cwd="/usr")
    r = k.run("import os\nprint(os.getcwd(), os.environ['GIVEN'], os.environ['MINE'], os.getpgrp() == os.getpid(), os.getuid())")
    uid = 1000 if os.getuid() == 0 else os.getuid()
    assert r.text() == f"/usr 1 2 True {uid}\n" and r.reply["execution_count"] == 1, r.text()
    r = k.run("import sys, linecache\n"
              "shown = {'In', 'Out', 'exit', 'quit', 'open', 'get_ipython', 'os', 'sys', 'linecache'}\n"
              "print([n for n in dir() if n[0] != '_' and n not in shown], Out,"
              " len([c for c in linecache.cache if 'ipython-input' in c]))")
    assert r.text() == "['shown'] {} 2\n", r.text()
    assert k.run("plt = sys.modules['matplotlib.pyplot']; plt.get_fignums()").data() == [{"text/plain": "[]"}]
    # What was imported ahead saw a notebook, not a terminal.
    assert k.run("import pandas; pandas.get_option('display.max_columns')").data() == [{"text/plain": "20"}]


def parent_kernels_share_no_randomness(p):
    code = ("import random, uuid, tempfile, secrets, ssl, numpy as np\n"
            "print([random.random(), np.random.rand(), uuid.uuid1().node, uuid.uuid4().hex, secrets.token_hex(),"
            " ssl.RAND_bytes(8), tempfile.mktemp()])")
    seen = [p.fork(f"r{i}").run(code) for i in range(3)]
    for values in zip(*(eval(r.text()) for r in seen)):
        assert len(set(values)) == 3, values


def parent_tells_ends(p):
    k = p.fork("exit")
    msg_id = k.start("import os\nprint('last words'); os._exit(3)")
    assert os.waitstatus_to_exitcode(ended(p, k)) == 3
    while (m := k.receive(k.iopub)).type != "stream":
        pass
    assert m.content["text"] == "last words\n" and m.parent["msg_id"] == msg_id
    k = p.fork("crash")
    k.start("import faulthandler, ctypes\nfaulthandler.enable(); ctypes.string_at(0)")
    assert os.waitstatus_to_exitcode(ended(p, k)) == -signal.SIGSEGV
    text = os.read(k.crash, 65536).decode()
    assert "Segmentation fault" in text and "string_at" in text, text
    k = p.fork("killed")
    k.start("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    assert os.waitstatus_to_exitcode(ended(p, k)) == -signal.SIGKILL


def parent_shuts_down(p):
    for code in ("1", "while True: pass"):
        k = p.fork("down")
        k.start(code)
        time.sleep(0.3)
        k.send(k.control, "shutdown_request", {"restart": True})
        assert k.receive(k.control).content == {"status": "ok", "restart": True}
        assert ended(p, k) == 0


def parent_refuses(p):
    answer, _, crash = p.fork_raw("nowhere", cwd="/does/not/exist")
    os.close(crash)
    assert answer["op"] == "failed" and "/does/not/exist" in answer["message"]
    answer = p.operate({"op": "fork", "id": "x"})
    assert answer["op"] == "failed" and answer["id"] == "x"
    threads = os.listdir(f"/proc/{p.process.pid}/task")
    assert len(threads) == 1


# ---- alone, by jupyter_client


def alone_by_jupyter_client(binary, folder):
    from jupyter_client import KernelManager
    from jupyter_client.kernelspec import KernelSpec

    class Manager(KernelManager):
        @property
        def kernel_spec(self):
            return KernelSpec(argv=[binary, "-f", "{connection_file}"], language="python", interrupt_mode="message")

    km = Manager(connection_file=os.path.join(folder, "alone.json"), transport="ipc", ip=os.path.join(folder, "alone"))
    km.start_kernel(env=dict(os.environ, HOME=folder))
    kc = km.blocking_client()
    kc.start_channels()
    try:
        began = time.monotonic()
        while True:
            # Its heartbeat counts as dead until the kernel was there once.
            try:
                kc.wait_for_ready(timeout=30)
                break
            except RuntimeError:
                assert elapsed(began) < 60
        said = []
        reply = kc.execute_interactive("print('hi'); 6*7", output_hook=said.append, timeout=20)
        assert reply["content"]["status"] == "ok"
        assert "".join(m["content"]["text"] for m in said if m["msg_type"] == "stream") == "hi\n"
        kc.execute("while True: pass")
        time.sleep(0.5)
        km.interrupt_kernel()
        assert kc.get_shell_msg(timeout=10)["content"]["ename"] == "KeyboardInterrupt"
        # It is asked once a second, by a thread of the client's.
        while not kc.hb_channel.is_beating():
            assert elapsed(began) < 60
            time.sleep(0.1)
    finally:
        kc.stop_channels()
        km.shutdown_kernel()
    assert not km.is_alive()


# ----


def native():
    for module in ("pandas", "matplotlib", "matplotlib_inline", "jupyter_client"):
        if subprocess.run(["/usr/bin/python3", "-c", f"import {module}"], capture_output=True).returncode:
            clients.skip(f"Python's {module} is missing on this machine")
    return clients.native_kernel()


def main():
    image = "--image" in sys.argv[1:]
    wanted = [a for a in sys.argv[1:] if a != "--image"]
    tests = {n: f for n, f in globals().items() if n.startswith(("test_", "parent_")) and (not wanted or n in wanted)}
    binary = None if image else native()
    folder = user_folder()
    try:
        argv = (clients.in_image(folder) if image else [binary]) + ["--parent"]
        parent = Parent(argv, folder, None if image else dict(os.environ, HOME=folder))
        try:
            for name, test in tests.items():
                began = time.monotonic()
                if name.startswith("parent_"):
                    test(parent)
                else:
                    k = parent.fork(name)
                    test(k)
                    k.send(k.control, "shutdown_request", {})
                    ended(parent, k)
                print(f"{name}: {elapsed(began):.1f} s", flush=True)
        finally:
            parent.close()
        if not image and not wanted:
            alone_by_jupyter_client(binary, folder)
    finally:
        remove(folder)


if __name__ == "__main__":
    main()
