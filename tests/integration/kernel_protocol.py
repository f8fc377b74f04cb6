#!/usr/bin/python3
"""What the Python kernel does beyond running a cell: comms, subshells, background
tasks, whose output it is, usage.

usage: kernel_protocol.py [--image] [TEST]...

Drives build/carrel-python on this machine, or (--image) the one of the image
inside its root. Skipped where what it needs is not installed.
"""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import clients

try:
    from kernel_client import Parent, elapsed, remove, user_folder
except ImportError as e:
    clients.skip(f"{e.name} is missing (apt-get install python3-zmq)")


def until(k, kind, sock=None):
    """The next message of a type on iopub, or another channel."""
    while (m := k.receive(sock or k.iopub)).type != kind:
        pass
    return m


def text_of(k, msg_id, length):
    """That many characters of a request's output, from whenever on."""
    text = ""
    while len(text) < length:
        m = until(k, "stream")
        if m.parent["msg_id"] == msg_id:
            text += m.content["text"]
    return text


# ---- comms


def test_comm_from_the_kernel(k):
    r = k.run("import comm\nc = comm.create_comm(target_name='t', data={'a': [1, None]}, metadata={'v': '2'},"
              " buffers=[b'x\\x00y', memoryview(b'z')])\ngot = []\nc.on_msg(got.append)\nc.on_close(got.append)")
    opened = r.outputs[-1]
    assert opened.type == "comm_open" and opened.content["target_name"] == "t" and opened.content["data"] == {"a": [1, None]}
    assert opened.buffers == [b"x\0y", b"z"] and opened.metadata == {"v": "2"}
    comm_id = opened.content["comm_id"]
    assert k.ask("comm_info_request", {}) == {"status": "ok", "comms": {comm_id: {"target_name": "t"}}}
    assert k.ask("comm_info_request", {"target_name": "other"})["comms"] == {}
    msg_id = k.send(k.shell, "comm_msg", {"comm_id": comm_id, "data": {"n": 1}}, buffers=[b"\xff\0", b""])
    assert k.outputs(msg_id) == []
    r = k.run("[(m['content']['data'], [bytes(b) for b in m['buffers']]) for m in got]")
    assert r.data() == [{"text/plain": "[({'n': 1}, [b'\\xff\\x00', b''])]"}]
    assert k.run("c.send({'b': 2}, buffers=[bytes(1_000_000)])").outputs[-1].buffers == [bytes(1_000_000)]
    k.outputs(k.send(k.shell, "comm_close", {"comm_id": comm_id, "data": {"end": 1}}))
    assert k.run("got[-1]['content']['data'], c._closed").data() == [{"text/plain": "({'end': 1}, True)"}]
    assert k.ask("comm_info_request", {})["comms"] == {}
    assert k.run("c2 = comm.create_comm('t'); c2.close({'bye': 1})").types == ["comm_open", "comm_close"]
    k.outputs(k.send(k.shell, "comm_msg", {"comm_id": "nobody's", "data": {}}))


def test_comm_from_the_client(k):
    k.run("from comm import get_comm_manager\ndef target(comm, msg):\n    print('opened', msg['content']['data'])\n"
          "    comm.on_msg(lambda m: (print('got'), comm.send({'echo': m['content']['data']}, buffers=m['buffers'])))\n"
          "get_comm_manager().register_target('echo', target)")
    out = k.outputs(k.send(k.shell, "comm_open", {"comm_id": "id1", "target_name": "echo", "data": {"x": 1}}))
    assert [m.content["text"] for m in out] == ["opened {'x': 1}\n"]
    out = k.outputs(k.send(k.shell, "comm_msg", {"comm_id": "id1", "data": 5}, buffers=[b"raw"]))
    assert [m.type for m in out] == ["stream", "comm_msg"]
    assert out[1].content == {"comm_id": "id1", "data": {"echo": 5}} and out[1].buffers == [b"raw"]
    # Nobody there, or one that fails: it is closed, and said why.
    k.run("def bad(comm, msg): raise ValueError('no')\nget_comm_manager().register_target('bad', bad)")
    for target in ("unknown", "bad"):
        out = k.outputs(k.send(k.shell, "comm_open", {"comm_id": "id2", "target_name": target, "data": {}}))
        assert out[-1].type == "comm_close" and out[-1].content["comm_id"] == "id2"
        assert target in "".join(m.content["text"] for m in out[:-1])
    # A callback that fails does not end the kernel, and what it prints is the message's.
    k.run("def fail(m): 1/0\nget_comm_manager().comms['id1'].on_msg(fail)")
    out = k.outputs(k.send(k.shell, "comm_msg", {"comm_id": "id1", "data": {}}))
    assert "ZeroDivisionError" in out[0].content["text"]
    assert k.run("1").status == "ok"


def test_a_cell_awaits_a_comm(k):
    """The answer is served while the cell waits for it, before the cells behind it."""
    msg_id = k.start("import asyncio, comm\nc = comm.create_comm('q')\nf = asyncio.get_running_loop().create_future()\n"
                     "c.on_msg(lambda m: f.set_result(m['content']['data']))\nawait asyncio.wait_for(f, 10)")
    comm_id = until(k, "comm_open").content["comm_id"]
    later = k.start("'later'")
    k.send(k.shell, "comm_msg", {"comm_id": comm_id, "data": 42})
    first, then = k.finish_all([msg_id, later])
    assert first.data() == [{"text/plain": "42"}] and then.data() == [{"text/plain": "'later'"}]


def test_widgets(k):
    python = clients.newest()
    site = subprocess.run([python, "-c", "import ipywidgets, os; print(os.path.dirname(os.path.dirname(ipywidgets.__file__)))"],
                          capture_output=True, text=True, check=True).stdout.strip()
    k.run(f"import sys; sys.path.append({site!r})")
    r = k.run("import ipywidgets as w\ns = w.IntSlider(3, max=9)\nseen = []\ns.observe(lambda c: seen.append(c['new']), 'value')\ns")
    assert r.status == "ok", r.reply
    opened = [m for m in r.outputs if m.type == "comm_open"]
    states = {m.content["comm_id"]: m.content["data"]["state"] for m in opened}
    assert len(opened) == 3 and opened[0].metadata["version"].startswith("2."), opened
    model = next(i for i, s in states.items() if s.get("_model_name") == "IntSliderModel")
    assert r.data()[-1]["application/vnd.jupyter.widget-view+json"]["model_id"] == model
    k.outputs(k.send(k.shell, "comm_msg", {"comm_id": model, "data": {"method": "update", "state": {"value": 7}, "buffer_paths": []}}))
    assert k.run("s.value, seen").data() == [{"text/plain": "(7, [7])"}]
    r = k.run("s.value = 2")
    assert [m.content["data"]["state"]["value"] for m in r.outputs if m.type == "comm_msg"] == [2]
    r = k.run("o = w.Output()\nwith o: print('in o')\nb = w.Image(value=b'\\x89PNG')\nb.value[:4]")
    assert any(m.buffers == [b"\x89PNG"] for m in r.outputs if m.type == "comm_open"), r.types
    # What a page asks when it connects.
    k.run("w.register_comm_target()")
    k.send(k.shell, "comm_open", {"comm_id": "ctl", "target_name": "jupyter.widget.control", "data": {}}, metadata={"version": "1.0.0"})
    msg_id = k.send(k.shell, "comm_msg", {"comm_id": "ctl", "data": {"method": "request_states"}})
    (states,) = [m for m in k.outputs(msg_id) if m.type == "comm_msg"]
    assert states.content["data"]["method"] == "update_states" and model in states.content["data"]["states"]


# ---- subshells


def subshell(k):
    return k.ask("create_subshell_request", {}, k.control)["subshell_id"]


def test_subshells(k):
    assert "kernel subshells" in k.ask("kernel_info_request", {})["supported_features"]
    a, b = subshell(k), subshell(k)
    assert k.ask("list_subshell_request", {}, k.control)["subshell_id"] == [a, b]
    k.run("import time, threading\nb = threading.Barrier(3)")
    busy = k.start("b.wait(10)\nprint('main')")
    ids = [k.start(f"b.wait(10)\nprint('sub', {n})\ndisplay({n})\nx{n} = {n}", subshell=s) for n, s in enumerate((a, b))]
    got = k.finish_all([busy, *ids])
    assert [g.status for g in got] == ["ok"] * 3, [g.reply for g in got]
    assert [g.text() for g in got] == ["main\n", "sub 0\n", "sub 1\n"]
    assert [g.data() for g in got[1:]] == [[{"text/plain": "0"}], [{"text/plain": "1"}]]
    assert k.run("x0, x1").data() == [{"text/plain": "(0, 1)"}]
    # Each its own order and its own stop at an error; await, input and other requests work there.
    slow = k.start("time.sleep(0.5)")
    ids = [k.start(c, subshell=a) for c in ("import asyncio; await asyncio.sleep(0.1); 1/0", "print('never')")]
    other = [k.start(c, subshell=b) for c in ("print(1)", "print(2)")]
    got = k.finish_all([slow, *ids, *other])
    assert [g.status for g in got] == ["ok", "error", "aborted", "ok", "ok"]
    assert k.finish_all([k.start("print('again')", subshell=a)])[0].text() == "again\n"
    assert k.ask("is_complete_request", {"code": "f("}, subshell=b)["status"] == "incomplete"
    msg_id = k.start("input('q')", subshell=b, allow_stdin=True)
    assert k.receive(k.stdin).content["prompt"] == "q"
    k.send(k.stdin, "input_reply", {"value": "v"})
    assert k.finish_all([msg_id])[0].data() == [{"text/plain": "'v'"}]
    # An interrupt is the main shell's.
    k.start("time.sleep(1); print('whole')", subshell=a)
    msg_id = k.start("time.sleep(60)")
    time.sleep(0.5)
    k.interrupt()
    while (m := k.receive(k.shell)).parent["msg_id"] != msg_id:
        pass
    assert m.content["ename"] == "KeyboardInterrupt"
    for s in (a, b):
        assert k.ask("delete_subshell_request", {"subshell_id": s}, k.control) == {"status": "ok"}
    assert k.ask("delete_subshell_request", {"subshell_id": a}, k.control)["status"] == "error"
    assert k.ask("list_subshell_request", {}, k.control)["subshell_id"] == []


def test_many_subshells(k):
    made = [subshell(k) for _ in range(32)]
    refused = k.ask("create_subshell_request", {}, k.control)
    assert refused["status"] == "error" and refused["evalue"]
    got = k.finish_all([k.start(f"print({n})", subshell=s) for n, s in enumerate(made)])
    assert [g.text() for g in got] == [f"{n}\n" for n in range(32)]
    for s in made:
        k.ask("delete_subshell_request", {"subshell_id": s}, k.control)
    r = k.run("import threading; [t.name for t in threading.enumerate() if 'Subshell' in t.name]")
    assert r.data() == [{"text/plain": "[]"}]
    reply = k.ask("execute_request", {"code": "1"}, subshell=made[0])
    assert reply["status"] == "error" and reply["ename"] == "UnknownSubshellError"


# ---- whose output it is


def test_background_tasks(k):
    msg_id = k.start("import asyncio\nasync def f():\n    for i in range(3):\n        await asyncio.sleep(0.2)\n"
                     "        print(i, end='')\nt = asyncio.get_event_loop().create_task(f())")
    k.finish(msg_id)
    later = k.start("print('later')")
    assert text_of(k, msg_id, 3) == "012"
    assert k.receive(k.shell).parent["msg_id"] == later
    # A step that does not end can be interrupted, and cells go on.
    k.run("async def g():\n    await asyncio.sleep(0.1)\n    while True: pass\nt = asyncio.ensure_future(g(), loop=asyncio.get_event_loop())")
    time.sleep(0.5)
    k.interrupt()
    assert k.run("1").status == "ok"
    # Python's own asyncio.run() takes nothing away.
    assert k.run("asyncio.run(asyncio.sleep(0))").status == "ok"
    msg_id = k.start("t = asyncio.get_event_loop().create_task(f())")
    k.finish(msg_id)
    assert text_of(k, msg_id, 3) == "012"


def test_whose_output(k):
    first = k.start("import threading, time\nparent = get_ipython().get_parent()\ne = threading.Event()\ndef f(own):\n"
                    "    if own: get_ipython().set_thread_parent(parent)\n    e.wait(10); print('own' if own else 'now')\n"
                    "ts = [threading.Thread(target=f, args=(o,)) for o in (True, False)]\nfor t in ts: t.start()")
    k.finish(first)
    second = k.start("e.set()\nfor t in ts: t.join()")
    seen = {}
    while len("".join(seen.values())) < 8:
        m = until(k, "stream")
        seen[m.parent["msg_id"]] = seen.get(m.parent["msg_id"], "") + m.content["text"]
    assert seen == {first: "own\n", second: "now\n"}, seen


# ---- other requests


def test_usage_and_connect(k):
    k.start("import time; time.sleep(1)")
    k.send(k.control, "usage_request", {})
    usage = k.receive(k.control).content
    assert usage["pid"] == k.pid and usage["kernel_memory"] > 1 << 20 and usage["cpu_count"] >= 1, usage
    assert 0 < usage["host_virtual_memory"]["percent"] < 100 and usage["hostname"]
    time.sleep(1)
    ports = k.ask("connect_request", {}, k.control)
    assert ports == {"status": "ok", "shell_port": 1, "iopub_port": 2, "stdin_port": 3, "hb_port": 4, "control_port": 5}


def test_replies_tell_when(k):
    msg_id = k.start("import time; time.sleep(0.2)")
    m = k.receive(k.shell)
    assert m.parent["msg_id"] == msg_id and m.header["version"] == "5.5"
    assert m.metadata["started"] < m.header["date"]


def test_input_of_many_kinds(k):
    msg_id = k.start("import getpass\n[input(), input('p'), getpass.getpass(), getpass.getpass('q', stream=None, echo_char='*')]",
                     allow_stdin=True)
    for prompt, password in (("", False), ("p", False), ("Password: ", True), ("q", True)):
        m = k.receive(k.stdin)
        assert m.content == {"prompt": prompt, "password": password}
        k.send(k.stdin, "input_reply", {"value": prompt.upper() + "\u4f60"})
    assert k.finish(msg_id).data() == [{"text/plain": "['\u4f60', 'P\u4f60', 'PASSWORD: \u4f60', 'Q\u4f60']"}]
    msg_id = k.start("input()", allow_stdin=True)
    k.receive(k.stdin)
    k.send(k.stdin, "input_reply", {"value": "\x04"})
    assert k.finish(msg_id).ename == "EOFError"
    began = time.monotonic()
    for code in ("input()", "import getpass; getpass.getpass()"):
        r = k.run(code, allow_stdin=False)
        assert r.ename == "StdinNotImplementedError" and r.reply["evalue"]
    assert elapsed(began) < 5 and not k.stdin.poll(100)


def test_history_outlives(k):
    k.run("kept = 'by ' + 'history'")
    k.send(k.control, "shutdown_request", {"restart": True})
    k.parent_process.exited(k.pid)
    again = k.parent_process.fork("again")
    found = again.ask("history_request", {"hist_access_type": "search", "pattern": "kept = *", "raw": True})["history"]
    assert [h[2] for h in found] == ["kept = 'by ' + 'history'"] and found[0][0] > 0
    assert "kept = " in again.run("%history -g kept").text()
    again.send(again.control, "shutdown_request", {})
    k.parent_process.exited(again.pid)


# ----


def main():
    image = "--image" in sys.argv[1:]
    if image:
        # The newest widgets are in an environment of the host.
        del globals()["test_widgets"]
    wanted = [a for a in sys.argv[1:] if a != "--image"]
    tests = {n: f for n, f in globals().items() if n.startswith("test_") and (n in wanted or not wanted)}
    folder = user_folder()
    try:
        argv = (clients.in_image(folder) if image else [clients.native_kernel()]) + ["--parent"]
        parent = Parent(argv, folder, None if image else dict(os.environ, HOME=folder))
        try:
            for name, test in tests.items():
                began = time.monotonic()
                k = parent.fork(name)
                k.parent_process = parent
                test(k)
                if name != "test_history_outlives":
                    k.send(k.control, "shutdown_request", {})
                    assert parent.exited(k.pid)["status"] == 0
                print(f"{name}: {elapsed(began):.1f} s", flush=True)
        finally:
            parent.close()
    finally:
        remove(folder)


if __name__ == "__main__":
    main()
