#!/usr/bin/python3
"""Inputs that broke kernels, from public reports, and the right behaviour of ours.

usage: kernel_cases.py [--image] [TEST]...

The number in a test's name is the report's; the cases beside the reported one
are of the same kind. Drives build/carrel-python on this machine,
or (--image) the one of the image inside its root; skipped where what it needs is
not installed.
"""
import os
import re
import signal
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import clients

try:
    from kernel_client import Parent, elapsed, remove, user_folder
except ImportError as e:
    clients.skip(f"{e.name} is missing (apt-get install python3-zmq)")

INTERRUPT_S = 2


def plain(reply):
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(reply["traceback"]))


def alive(k):
    assert k.run("40 + 2").data() == [{"text/plain": "42"}]


# ---- text that is no text


def test_1_surrogates_in_output(k):
    for code, want in (("print('\\udcc3')", "\\udcc3\n"), ("print('a\\ud800b')", "a\\ud800b\n"),
                       ("import sys; sys.stderr.write('\\udfff'); None", "\\udfff")):
        assert k.run(code).text() == want, code
    assert k.run("import sys; sys.stdout.buffer.write(b'\\xed\\xb3\\x83\\n'); None").text() == "\ufffd\ufffd\ufffd\n"
    r = k.run("display({'text/plain': 'x\\udcc3y'}, raw=True)")
    assert r.data() == [{"text/plain": "x\ufffdy"}]


def test_2_surrogates_in_errors(k):
    for code, ename in (("raise Exception(chr(0xd8ff))", "Exception"), ("{}['\\udc80']", "KeyError"),
                        ("open('/\\ud800')", "UnicodeEncodeError"), ("exec('x = \"\\ud800')", "UnicodeEncodeError"),
                        ("class E\u00e9(Exception): pass\nraise E\u00e9('\\udfff')", "E\u00e9")):
        r = k.run(code)
        assert r.status == "error" and r.types == ["error"], (code, r.types)
        assert r.ename in (ename, "SyntaxError"), (code, r.ename)
    assert k.run("class B:\n    def __repr__(self): return '\\ud800'\nB()").data() == [{"text/plain": "\ufffd"}]


def test_4_nul(k):
    for code in ("a\0b", "\0", "print(1)\n\0", "'\0'", "# \0"):
        r = k.run(code)
        assert r.status == "error" and r.ename in ("SyntaxError", "ValueError"), (code, r.reply)
    assert k.run("print('a\\0b')").text() == "a\0b\n"
    assert k.run("'\\0'").data() == [{"text/plain": "'\\x00'"}]
    assert k.run("raise ValueError('\\0')").reply["evalue"] == "\0"
    alive(k)


def test_5_not_a_number(k):
    show = "display({{'application/json': {}, 'text/plain': 'p'}}, raw=True)"
    for value, want in (("float('nan')", None), ("[float('inf'), -float('inf'), 1.5]", [None, None, 1.5]),
                        ("{'a': {'b': float('nan')}}", {"a": {"b": None}}), ("{1: 2, None: 3, (1, 2): 4}", None)):
        r = k.run(show.format(value))
        assert r.status == "ok" and r.text() == "", r.reply
        got = r.data()[0]["application/json"]
        assert want is None or got == want, (value, got)
    r = k.run("import numpy as np\n" + show.format("{'n': np.float64('nan'), 'i': np.int8(3), 'b': np.bool_(True)}"))
    assert r.data()[0]["application/json"] == {"n": None, "i": 3, "b": True}, r.data()
    r = k.run("display({'text/plain': 'p'}, raw=True, metadata={'m': float('nan')})")
    assert r.outputs[-1].content["metadata"] == {"m": None}
    assert k.run("float('nan')").data() == [{"text/plain": "nan"}]


# ---- much output


def flood(k, code):
    """Interrupt a cell that never stops writing: soon, whole, and in little memory."""
    began = time.monotonic()
    msg_id = k.start(code)
    while elapsed(began) < 1:
        k.receive(k.iopub)
    began = time.monotonic()
    k.interrupt()
    while True:
        m = k.receive(k.iopub)
        if m.parent.get("msg_id") == msg_id and m.type == "error":
            took = elapsed(began)
        if m.parent.get("msg_id") == msg_id and m.type == "status" and m.content["execution_state"] == "idle":
            break
    assert k.receive(k.shell).content["ename"] == "KeyboardInterrupt"
    assert took < INTERRUPT_S, took
    status = k.run("print(open('/proc/self/status').read())").text()
    rss = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) // 1024
    assert rss < 400, rss


def test_7_endless_output(k):
    flood(k, "while True: print(1)")
    flood(k, "import sys\nwhile True: sys.stderr.write('x' * 10000)")
    flood(k, "while True: display(1)")
    flood(k, "!yes")


def test_9_nothing_is_lost(k):
    lines = "".join(f"{i}\n" for i in range(10000)) + "hi\n"
    for code in ("for i in range(10000): print(i, flush=True)\nprint('hi')",
                 "import sys\nfor i in range(10000): sys.stdout.write(f'{i}\\n')\nprint('hi')",
                 "!seq 0 9999; echo hi",
                 "import os\nfor i in range(10000): os.write(1, b'%d\\n' % i)\nprint('hi')"):
        r = k.run(code)
        assert r.text() == lines, code
    msg_id = k.start("for i in range(200_000): print(i)")
    time.sleep(3)
    assert k.finish(msg_id).text() == "".join(f"{i}\n" for i in range(200_000))


def screen(text):
    """What a terminal shows of one line."""
    out, at = [], 0
    for ch in text:
        if ch == "\r":
            at = 0
        elif ch == "\b":
            at = max(0, at - 1)
        else:
            out[at:at + 1] = ch
            at += 1
    return "".join(out)


def test_10_carriage_returns(k):
    for code, want in (("import time\nfor i in range(20): print(i, end='\\r'); time.sleep(0.01)", "19"),
                       ("import sys, time\nfor i in range(5): sys.stdout.write(f'\\r{i * 25}%'); time.sleep(0.1)", "100%"),
                       ("print('abc\\b\\bX', end='')", "aXc"), ("print('x' * 9, end='\\r'); print('y', end='')", "yxxxxxxxx")):
        assert screen(k.run(code).text()) == want, code
    # A bar of tqdm's kind on stderr, and its lines in order.
    r = k.run("import sys\nfor i in range(3): print(f'\\r{i}/2', end='', file=sys.stderr)\nprint(file=sys.stderr)")
    assert r.text("stderr") == "\r0/2\r1/2\r2/2\n"


# ---- whatever writes


def test_12_c_code(k):
    k.run("import ctypes, os, sys\nc = ctypes.CDLL(None)")
    for code, want in (("print('a'); c.puts(b'b'); c.fflush(None); print('c')", "a\nb\nc\n"),
                       ("c.printf(b'no newline')\nNone", "no newline"),
                       ("print('x'); os.write(1, b'y\\n'); print('z')", "x\ny\nz\n"),
                       ("c.perror(b'p'); None", None)):
        r = k.run(code)
        assert want is None and r.text("stderr").startswith("p: ") or r.text() == want, (code, r.text())


def test_13_c_code_with_the_lock(k):
    for code, length in (("import ctypes; ctypes.PyDLL(None).printf(b'1' * 100_000); None", 100_000),
                         ("ctypes.PyDLL(None).printf(b'2' * 3_000_000); None", 3_000_000),
                         ("ctypes.PyDLL(None).write(2, b'3' * 2_000_000, 2_000_000); None", 2_000_000),
                         ("for i in range(200): ctypes.PyDLL(None).puts(b'4' * 9_999)", 2_000_000)):
        assert len(k.run(code).text()) == length, code
    alive(k)


def test_14_verbose_children(k):
    both = "for i in $(seq 20000); do echo out$i; echo err$i >&2; done"
    for code in (f"!{both}", f"%%bash\n{both}",
                 f"import subprocess\nsubprocess.run({both!r}, shell=True); None",
                 f"import os; os.system({both!r}); None"):
        r = k.run(code)
        assert r.text("stdout") == "".join(f"out{i}\n" for i in range(1, 20001)), code
        assert r.text("stderr") == "".join(f"err{i}\n" for i in range(1, 20001)), code
    r = k.run("p = subprocess.run('echo kept', shell=True, capture_output=True); p.stdout")
    assert r.data() == [{"text/plain": "b'kept\\n'"}] and r.text() == ""


def test_15_system(k):
    for code, out, err in (("import os; os.system('echo a'); None", "a\n", ""), ("!echo b; echo c >&2", "b\n", "c\n"),
                           ("%sx echo d\nNone", "", ""), ("import subprocess; subprocess.call(['echo', 'e']); None", "e\n", ""),
                           ("os.spawnlp(os.P_WAIT, 'echo', 'echo', 'f'); None", "f\n", "")):
        r = k.run(code)
        assert (r.text("stdout"), r.text("stderr")) == (out, err), code


def test_19_forked_prints(k):
    r = k.run("from multiprocessing import Pool, Process\ndef f(x):\n    print('in', x, flush=True)\n    return x\n"
              "with Pool(3) as p: print(p.map(f, range(6)))")
    assert sorted(r.text().splitlines()) == sorted([f"in {i}" for i in range(6)] + ["[0, 1, 2, 3, 4, 5]"]), r.text()
    r = k.run("ps = [Process(target=print, args=('p', i)) for i in range(3)]\nfor p in ps: p.start()\nfor p in ps: p.join()")
    assert sorted(r.text().splitlines()) == ["p 0", "p 1", "p 2"]
    r = k.run("from concurrent.futures import ProcessPoolExecutor\nwith ProcessPoolExecutor(2) as e: print(list(e.map(f, [1, 2])))")
    assert "[1, 2]" in r.text() and r.text().count("in ") == 2, r.text()
    r = k.run("import os\nif os.fork() == 0:\n    print('child'); os._exit(0)\nos.wait(); print('parent')")
    assert sorted(r.text().split()) == ["child", "parent"]
    # Whatever the kernel's own threads hold at that moment.
    r = k.run("import os, sys\nfor i in range(300):\n    print('parent', i)\n    if os.fork() == 0:\n        sys.stdout.write('child')\n"
              "        sys.stdout.flush(); os._exit(0)\n    os.wait()\nprint('done')")
    assert "done" in r.text(), r.text()[-200:]
    r = k.run("p = Process(target=int, args=('x',)); p.start(); p.join(); p.exitcode")
    assert "ValueError" in r.text("stderr") and r.data() == [{"text/plain": "1"}]


def late(k, code, want):
    """Output after the cell's idle has a parent that is a cell of ours."""
    ids = [k.start(code)]
    k.finish(ids[0])
    text = ""
    while len(text) < len(want):
        m = k.receive(k.iopub)
        if m.type == "stream":
            assert m.parent["msg_id"] in ids, m.parent
            text += m.content["text"]
    assert text == want


def test_21_late_prints(k):
    """A thread's output belongs to the cell that runs then, or ran last; a task's to the cell that made it."""
    late(k, "import threading, time\ndef f():\n    time.sleep(.3); print('late')\nthreading.Thread(target=f).start()", "late\n")
    late(k, "threading.Timer(.2, print, ('timer',)).start()", "timer\n")
    late(k, "import subprocess; subprocess.Popen('sleep .3; echo child', shell=True); None", "child\n")
    late(k, "import asyncio\nasync def g():\n    await asyncio.sleep(.2); print('task')\n"
            "t = asyncio.get_event_loop().create_task(g())", "task\n")
    late(k, "t = asyncio.get_event_loop().call_later(.2, print, 'call')", "call\n")


def test_22_run_all(k):
    codes = [f"print('cell {i}', end='')" if i % 2 else f"import os; os.system('echo cell {i}'); None" for i in range(30)]
    codes += ["import sys; sys.stderr.write('e'); None", "display('d')", "!echo s"]
    ids = [k.start(c) for c in codes]
    results = [k.finish(i) for i in ids]
    assert [r.text().strip() for r in results[:30]] == [f"cell {i}" for i in range(30)]
    assert [r.text() for r in results[30:]] == ["e", "", "s\n"] and results[31].types == ["display_data"]


# ---- questions and interrupts


def interrupted(k, code, wait=0.4, **options):
    msg_id = k.start(code, **options)
    if options.get("allow_stdin"):
        k.receive(k.stdin)
    else:
        time.sleep(wait)
    began = time.monotonic()
    k.interrupt()
    r = k.finish(msg_id)
    assert r.ename == "KeyboardInterrupt" and elapsed(began) < INTERRUPT_S, (code, r.reply)
    return r


def test_23_interrupted_questions(k):
    for code in ("input('?')", "while True: input()", "import getpass; getpass.getpass()", "[input() for _ in range(3)]"):
        interrupted(k, code, allow_stdin=True)
        k.send(k.stdin, "input_reply", {"value": "stale"})
    msg_id = k.start("input()", allow_stdin=True)
    while k.receive(k.stdin).parent["msg_id"] != msg_id:
        pass
    time.sleep(0.1)
    k.send(k.stdin, "input_reply", {"value": "fresh"})
    assert k.finish(msg_id).data() == [{"text/plain": "'fresh'"}]
    # A debugger's question ends, too.
    msg_id = k.start("import pdb; pdb.set_trace()", allow_stdin=True)
    k.receive(k.stdin)
    k.interrupt()
    assert k.finish(msg_id).status in ("ok", "error")
    alive(k)


def test_25_interrupts(k):
    for _ in range(3):
        k.interrupt()
    alive(k)
    k.run("kept = 1")
    for code in ("while True: pass", "import time; time.sleep(60)", "!sleep 60", "import asyncio; await asyncio.sleep(60)",
                 "import threading; threading.Event().wait()", "import subprocess; subprocess.run(['sleep', '60'])",
                 "import queue; queue.Queue().get()", "import select; select.select([], [], [])",
                 "import socket; a, b = socket.socketpair(); a.recv(1)", "sum(x for x in iter(int, 1))",
                 "asyncio.run(asyncio.sleep(60))"):
        interrupted(k, code)
    r = k.run("try:\n    import os, signal; os.kill(os.getpid(), signal.SIGINT); time.sleep(1)\n"
              "except KeyboardInterrupt: print('caught', kept)")
    assert r.text() == "caught 1\n"
    if k.image:
        return
    # As a plain signal; in the image's root the kernel has another number.
    msg_id = k.start("time.sleep(60)")
    time.sleep(0.4)
    os.kill(k.pid, signal.SIGINT)
    assert k.finish(msg_id).ename == "KeyboardInterrupt"
    os.kill(k.pid, signal.SIGINT)
    alive(k)


def test_26_queued_cells(k):
    for failing in ("1/0", "import sys; sys.exit(1)", "f(", "raise KeyboardInterrupt"):
        ids = [k.start(c) for c in (failing, "print(1)", "print(2)")]
        assert [k.finish(i).status for i in ids] == ["error", "aborted", "aborted"], failing
        # What is sent after the error was seen runs.
        assert k.run("3").status == "ok"
    for _ in range(30):
        k.run("!false &" if _ % 2 else "1/0")
        assert k.run("4").data() == [{"text/plain": "4"}]
    ids = [k.start("1/0", stop_on_error=False), k.start("5")]
    assert [k.finish(i).status for i in ids] == ["error", "ok"]


# ---- deaths (the parent tells how)


def test_28_and_17_deaths(k):
    parent = k.of
    enable = "import faulthandler, ctypes; faulthandler.enable(); "
    for code, status, text in (
        ("import os; os._exit(3)", 3, ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
        (enable + "ctypes.string_at(0)", -signal.SIGSEGV, "string_at"),
        ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV, "Segmentation fault"),
        ("import os; os.abort()", -signal.SIGABRT, "Aborted"),
        ("import sys; sys.setrecursionlimit(10**9)\nclass A:\n    def __getattr__(self, n): return getattr(self, n + 'x')\n"
         "import os; os._exit(7)", 7, ""),
    ):
        d = parent.fork("dies")
        d.start(code)
        began = time.monotonic()
        packet = parent.exited(d.pid)
        assert os.waitstatus_to_exitcode(packet["status"]) == status, (code, packet)
        assert elapsed(began) < 5
        os.set_blocking(d.crash, False)
        try:
            crash = os.read(d.crash, 65536).decode()
        except BlockingIOError:
            crash = ""
        assert text in crash, (code, crash)


# ---- errors that are told well


def test_31_deep_recursion(k):
    for code in ("def r(): r()\nr()", "def a(): b()\ndef b(): a()\na()", "class C:\n    def __getattr__(self, n): return self.x\nC().y",
                 "f = lambda: f()\nf()", "def g(n): return [g(n + 1) for _ in (1,)]\ng(0)"):
        r = k.run(code)
        assert r.ename == "RecursionError" and len(plain(r.reply)) < 20_000, (code, len(plain(r.reply)))
    r = k.run("class R:\n    def __repr__(self): return repr(self)\nR()")
    assert r.ename == "RecursionError" and r.status == "error"
    alive(k)


def test_32_source(k):
    k.run("import inspect, dataclasses\ndef f(x):\n    return x\nclass A:\n    def m(self): return 1\n\n"
          "@dataclasses.dataclass\nclass D:\n    x: int = 1\nl = lambda y: y + 1\nasync def co(): pass")
    for what, want in (("f", "def f(x):\n    return x\n"), ("A.m", "    def m(self): return 1\n"), ("l", "l = lambda y: y + 1\n"),
                       ("co", "async def co(): pass\n")):
        assert k.run(f"print(inspect.getsource({what}), end='')").text() == want, what
    assert k.run("print(inspect.getsource(A))").text().startswith("class A:\n    def m")
    assert "class D" in k.run("print(inspect.getsource(D))").text()
    k.run("class A:\n    'redefined'")
    assert "redefined" in k.run("print(inspect.getsource(A))").text()
    lines = plain(k.run("def h():\n    f(1)\n    return 1/0\nh()").reply)
    assert "----> 3     return 1/0" in lines and "----> 4 h()" in lines


def test_35_background_commands(k):
    for code, want in (("!echo a; sleep 30 &", "a\n"), ("!(sleep 0.1; echo b) & wait", "b\n"), ("!sleep 30 & echo c", "c\n"),
                       ("get_ipython().system('echo d; sleep 30 &')", "d\n")):
        began = time.monotonic()
        r = k.run(code)
        assert r.status == "ok" and r.text() == want and elapsed(began) < 10, (code, r.text())
    k.run("!pkill -P 1 sleep; true")


def test_36_figures_once(k):
    k.run("%matplotlib inline\nimport matplotlib.pyplot as plt")
    for code, n in (("for i in range(3):\n    plt.figure(); plt.plot([1, 2])", 3), ("1", 0),
                    ("%matplotlib inline\nplt.plot([1]); None", 1), ("%matplotlib inline\n%matplotlib inline\nplt.plot([2]); None", 1),
                    ("plt.plot([1]); plt.show()", 1), ("fig, ax = plt.subplots(); plt.close(fig)", 0),
                    ("fig, ax = plt.subplots(); display(fig); plt.close(fig)", 1),
                    ("plt.ioff(); fig = plt.figure(); plt.ion(); None", None), ("plt.close('all')", 0)):
        r = k.run(code)
        assert r.status == "ok", r.reply
        images = [d for d in r.data() if "image/png" in d]
        assert n is None or len(images) == n, (code, len(images))
    assert k.run("plt.get_fignums()").data() == [{"text/plain": "[]"}]


def test_37_memory(k):
    for code in ("x = bytearray(1 << 50)", "'x' * (1 << 60)", "[0] * (1 << 58)", "import numpy as np; np.zeros(1 << 55)"):
        r = k.run(code)
        assert r.ename in ("MemoryError", "_ArrayMemoryError"), (code, r.ename)
    alive(k)


def test_38_updates(k):
    r = k.run("h = display('a', display_id=True)")
    display_id = r.outputs[-1].content["transient"]["display_id"]
    for code in ("h.update('b')", "from IPython.display import update_display\nupdate_display('c', display_id=h.display_id)",
                 "h.update({'text/html': '<b>d</b>', 'text/plain': 'd'}, raw=True)"):
        r = k.run(code)
        assert r.types == ["update_display_data"], r.types
        assert r.outputs[-1].content["transient"] == {"display_id": display_id}
    r = k.run("display('mine', display_id='own'); display('mine too', display_id='own'); None")
    assert [m.content["transient"]["display_id"] for m in r.outputs[1:]] == ["own", "own"]
    assert k.run("update_display('e', display_id='never seen')").types == ["update_display_data"]


# ----


def test_traits_keep_their_meaning(k):
    r = k.run("""
from traitlets import HasTraits, Int, TraitError, TraitType, default, observe
class Own(TraitType):
    def get(self, obj, cls=None): return "made at each look"
class T(HasTraits):
    n, late, own = Int(1), Int(), Own()
    @default("late")
    def _late(self): print("made"); return 5
    @observe("n")
    def _n(self, change): print(change["old"], change["new"])
t = T()
t.n = 2
try: t.n = "x"
except TraitError: print("refused")
print(t.n, t.late, t.late, t.own, T.n is T.__dict__["n"], HasTraits().has_trait("n"))
""")
    assert r.text() == "1 2\nrefused\nmade\n2 5 5 made at each look True False\n", r.text()
    k.run("%config InteractiveShell.ast_node_interactivity = 'all'")
    assert k.run("1\n2").data() == [{"text/plain": "1"}, {"text/plain": "2"}]
    k.run("%config InteractiveShell.ast_node_interactivity = 'last_expr'")
    assert k.run("1\n2").data() == [{"text/plain": "2"}]
    k.run("1/0")
    assert k.run("get_ipython().last_execution_succeeded, get_ipython().last_execution_result.error_in_exec")\
        .data() == [{"text/plain": "(False, ZeroDivisionError('division by zero'))"}]


def main():
    image = "--image" in sys.argv[1:]
    wanted = [a for a in sys.argv[1:] if a != "--image"]
    tests = {n: f for n, f in globals().items() if n.startswith("test_") and (n in wanted or not wanted)}
    for module in ("numpy", "matplotlib"):
        if not os.path.isdir(f"/usr/lib/python3/dist-packages/{module}"):
            clients.skip(f"Debian's {module} is missing (apt-get install python3-{module})")
    folder = user_folder()
    failed = []
    try:
        argv = (clients.in_image(folder) if image else [clients.native_kernel()]) + ["--parent"]
        parent = Parent(argv, folder, None if image else dict(os.environ, HOME=folder))
        try:
            for name, test in tests.items():
                began = time.monotonic()
                k = parent.fork(name)
                k.of, k.image = parent, image
                try:
                    test(k)
                    k.send(k.control, "shutdown_request", {})
                    assert parent.exited(k.pid)["status"] == 0
                except AssertionError:
                    if wanted or image:
                        raise
                    traceback.print_exc()
                    failed.append(name)
                    os.kill(k.pid, signal.SIGKILL)
                    parent.exited(k.pid)
                print(f"{name}: {elapsed(began):.1f} s", flush=True)
        finally:
            parent.close()
    finally:
        remove(folder)
    assert not failed, failed


if __name__ == "__main__":
    main()
