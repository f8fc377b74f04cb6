#!/usr/bin/python3
"""A kernel's WebSocket on the whole path: what every Jupyter front end does, two at once, cut and taken up again."""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import Appliance, refused  # noqa: E402
from channels import Channels, Closed, text, types  # noqa: E402

CELL = ["status:busy", "execute_input"]


def rest(a):
    specs = a.json("GET", "/jupyter/api/kernelspecs")
    assert specs["default"] in specs["kernelspecs"], specs
    assert a.json("GET", "/jupyter/api/kernelspecs/" + specs["default"])["spec"]["interrupt_mode"] == "message"
    refused(404, "not_found", a.json, "GET", "/jupyter/api/kernelspecs/cobol")
    refused(400, "unknown_kernel", a.json, "POST", "/jupyter/api/kernels", {"name": "cobol"})
    status, _, headers = a.request("POST", "/jupyter/api/kernels?1612468535735",
                                   {"name": "python3", "path": "a.ipynb", "env": {"A": "1"}, "from": "tomorrow"})
    k = a.json("GET", headers["Location"])
    assert status == 201 and k["name"] == "python" and k["connections"] == 0, (status, k)
    assert [x["id"] for x in a.json("GET", "/jupyter/api/kernels")] == [k["id"]]
    sandbox = a.json("GET", "/v1/sandboxes/" + k["sandbox_id"])
    assert sandbox["on_timeout"] == "pause" and sandbox["auto_resume"], sandbox
    a.created = a.created | {k["sandbox_id"]}
    return k


def doors(a, k):
    """Who is let in, in which of the two forms."""
    for kernel, token, status in ((k["id"], "wrong", 403), ("nobody-1", None, 404), (k["id"] + "/../x", None, 404)):
        try:
            Channels(a, kernel, token=token)
            raise AssertionError(f"{kernel} {token} was let in")
        except Closed as e:
            assert e.args[0] in (status, 400), (kernel, token, e)
    # The key of a query is in no log.
    for name in ("nginx/access.log", "nginx/error.log", "run.log"):
        with open(os.path.join(a.state, name), encoding="utf-8", errors="replace") as f:
            assert "token=wrong" not in f.read(), name
    refused(401, "unauthorized", a.json, "GET", "/jupyter/api/kernels", headers={"Authorization": "token wrong"})
    assert a.json("GET", "/jupyter/api/kernels", headers={"Authorization": "token " + a.token})
    legacy = Channels(a, k["id"], subprotocol=None, header=True)
    assert "sec-websocket-protocol" not in legacy.headers
    reply, out = legacy.answer(legacy.execute("print('ü' * 3)"))
    assert reply["content"]["status"] == "ok" and text(out) == "üüü\n", (reply, out)
    legacy.close()


def cells(a, k):
    ws = Channels(a, k["id"])
    assert ws.headers["sec-websocket-protocol"] == "v1.kernel.websocket.jupyter.org"
    reply, out = ws.answer(ws.ask("kernel_info_request", {}))
    assert reply["content"]["status"] == "ok" and types(out) == ["status:busy", "status:idle"], out
    reply, out = ws.answer(ws.execute("6*7"))
    assert types(out) == CELL + ["execute_result", "status:idle"], types(out)
    assert out[2]["content"]["data"]["text/plain"] == "42" and out[2]["parent_header"]["session"] == ws.session
    count = reply["content"]["execution_count"]
    reply, out = ws.answer(ws.execute("print('s')", silent=True, store_history=False))
    assert "execute_input" not in types(out), types(out)
    reply, out = ws.answer(ws.execute("1"))
    assert reply["content"]["execution_count"] == count + 1, reply
    # It is an ordinary execution, too; its row may come a moment later than the kernel's own words.
    while (rows := a.json("GET", f"/v1/sandboxes/{k['sandbox_id']}/executions?limit=1")["executions"])[0]["status"] != "ok":
        time.sleep(0.05)
    assert rows[0]["code"] == "1" and rows[0]["execution_count"] == count + 1, rows
    # Input.
    i = ws.execute("print(input('name? '))")
    while True:
        m = ws.receive()
        if m["channel"] == "stdin":
            break
    assert m["content"]["prompt"] == "name? " and m["parent_header"]["msg_id"] == i, m
    ws.send("stdin", ws.header("input_reply"), {"value": "Ada"}, parent=m["header"])
    assert text(ws.answer(i)[1]) == "Ada\n"
    ws.close()


def queue(a, k):
    """A failed cell stops those behind it, in its session alone; other requests pass."""
    ws, other = Channels(a, k["id"]), Channels(a, k["id"])
    slow = ws.execute("import time; time.sleep(1)")
    ids = [ws.execute(c) for c in ("1/0", "print('never')", "print('never')")]
    theirs = other.execute("print('mine')")
    complete = ws.ask("complete_request", {"code": "prin", "cursor_pos": 4})
    seen = []
    assert ws.answer(slow, seen)[0]["content"]["status"] == "ok"
    assert ws.answer(ids[0], seen)[0]["content"]["ename"] == "ZeroDivisionError"
    for i in ids[1:]:
        reply, out = ws.answer(i, seen)
        assert reply["content"]["status"] == "aborted" and types(out) == ["status:busy", "status:idle"], (reply, out)
    assert "print" in ws.answer(complete)[0]["content"]["matches"]
    assert text(other.answer(theirs)[1]) == "mine\n"
    ids = [ws.execute(c, stop_on_error=False) for c in ("1/0", "print('on')")]
    assert ws.answer(ids[0])[0]["content"]["status"] == "error" and text(ws.answer(ids[1])[1]) == "on\n"
    # One of several that wait is taken out.
    hold = ws.execute("input('go')")
    while ws.receive()["channel"] != "stdin":
        pass
    ids = [ws.execute(f"print({n})") for n in range(3)]
    while len(waiting := a.json("GET", f"/v1/sandboxes/{k['sandbox_id']}/kernels")["kernels"][0]["queue"]) < 3:
        time.sleep(0.05)
    a.request("POST", f"/v1/executions/{waiting[1]}/interrupt", {})
    reply, out = ws.answer(ids[1])
    assert reply["content"]["status"] == "aborted", reply
    ws.send("stdin", ws.header("input_reply"), {"value": ""})
    assert ws.answer(hold)[0]["content"]["status"] == "ok"
    assert text(ws.answer(ids[0])[1]) == "0\n" and text(ws.answer(ids[2])[1]) == "2\n"
    # A notebook of many cells is sent at once.
    ids = [ws.execute(f"x = {n}") for n in range(110)] + [ws.execute("print(x)")]
    assert text(ws.answer(ids[-1])[1]) == "109\n"
    ws.close()
    other.close()


def two_clients(a, k):
    one, two = Channels(a, k["id"]), Channels(a, k["id"])
    reply, out = one.answer(one.execute("print('both')"))
    seen = [two.receive() for _ in range(len(out))]
    assert types(seen) == types(out) and all(m["channel"] == "iopub" for m in seen), types(seen)
    # The same session anew: the first connection ends.
    again = Channels(a, k["id"], session=one.session)
    try:
        while True:
            one.receive()
    except Closed:
        pass
    assert text(again.answer(again.execute("print('again')"))[1]) == "again\n"
    again.close()
    two.close()


def interrupt_and_death(a, k):
    ws = Channels(a, k["id"])
    i = ws.execute("print('in', flush=True)\nimport time\ntime.sleep(600)")
    while not (m := ws.receive())["header"]["msg_type"] == "stream":
        pass
    a.request("POST", f"/jupyter/api/kernels/{k['id']}/interrupt", {})
    assert ws.answer(i)[0]["content"]["ename"] == "KeyboardInterrupt"
    i = ws.execute("print('in', flush=True)\nwhile True: pass")
    while not (m := ws.receive())["header"]["msg_type"] == "stream":
        pass
    ws.send("control", ws.header("interrupt_request", "int-1"), {})
    assert ws.answer(i)[0]["content"]["ename"] == "KeyboardInterrupt"
    for code, words in (("import os; os._exit(3)", "exit code 3"),
                        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
                        ("import ctypes; ctypes.string_at(0)", "SIGSEGV")):
        i, behind = ws.execute(code), ws.execute("print('never')")
        seen = []
        reply, out = ws.answer(i, seen)
        assert reply["content"]["ename"] == "KernelDied" and words in reply["content"]["evalue"], reply
        assert types(out).count("error") == 1 and types(out)[-1] == "status:idle", types(out)
        reply, _ = ws.answer(behind, seen)
        assert reply["content"]["status"] == "aborted", reply
        while types(seen)[-1] != "status:restarting":
            seen.append(ws.receive())
        assert text(ws.answer(ws.execute("print('fresh')"))[1]) == "fresh\n"
    # Requests that the dead kernel had are answered as well.
    i = ws.execute("import os; os._exit(1)")
    c = ws.ask("history_request", {"hist_access_type": "tail", "n": 1, "output": False, "raw": True})
    ws.answer(i)
    ws.close()
    ws = Channels(a, k["id"])
    assert a.json("POST", f"/jupyter/api/kernels/{k['id']}/restart", {})["id"] == k["id"] and c
    assert ws.answer(ws.execute("1"))[0]["content"]["execution_count"] == 1
    ws.close()


def take_up(a, k, text_bytes=400000):
    """Cut again and again in the middle of output, taken up at what was received: nothing twice, nothing missing."""
    ws = Channels(a, k["id"], received=0)
    code = f"import time\nfor i in range(200): print(i, 'x' * {text_bytes // 200}, flush=True); time.sleep(0.02)"
    i, got, cuts = ws.execute(code), [], 0

    def done():
        mine = [m for m in got if m["parent_header"].get("msg_id") == i]
        return {"status:idle", "execute_reply"} <= set(types(mine))

    while not done():
        for _ in range(3 + cuts % 7):
            if not done():
                got.append(ws.receive())
        ws.acknowledge(len(got) - cuts % 2)
        ws.close()
        cuts += 1
        ws = Channels(a, k["id"], session=ws.session, received=len(got))
    ids = [m["header"]["msg_id"] for m in got]
    assert len(ids) == len(set(ids)), "a message came twice"
    lines = text([m for m in got if m["parent_header"].get("msg_id") == i]).splitlines()
    assert [int(l.split()[0]) for l in lines] == list(range(200)), lines[-1][:40]
    assert cuts > 2, cuts
    # What was sent and not acknowledged is sent again; carreld says what it has.
    m = ws.hello
    reply, _ = ws.answer(ws.execute("1"))
    assert reply["content"]["status"] == "ok" and (ws.hello or m)["known"], ws.hello
    ws.goodbye()
    anew = Channels(a, k["id"], session=ws.session, received=0)
    anew.answer(anew.execute("1"))
    assert anew.hello["known"] is False and anew.hello["received"] == 0, anew.hello
    anew.goodbye()


def slow(a, k):
    """A client that takes nothing for a while: the kernel waits, then every byte comes."""
    ws = Channels(a, k["id"])
    i = ws.execute("for i in range(4000): print('y' * 4000)")
    time.sleep(3)
    reply, out = ws.answer(i)
    assert len(text(out)) == 4000 * 4001, len(text(out))
    ws.close()


def pause(a, k):
    """What is asked of a paused sandbox wakes it."""
    ws = Channels(a, k["id"])
    ws.answer(ws.execute("kept = 5"))
    a.json("POST", f"/v1/sandboxes/{k['sandbox_id']}/pause", {})
    assert text(ws.answer(ws.execute("print(kept)"))[1]) == "5\n"
    ws.close()


def garbage(a, k):
    ws = Channels(a, k["id"])
    for data in (b"", b"x", b"\xff" * 100, bytes(8), b"\6" + bytes(7) + b"\xff" * 200):
        ws.write(data)
    for data in (b"", b"{", b"[]", b"{}", b'{"channel":"shell","header":{}}', b'{"channel":"nowhere","header":{}}'):
        ws.write(data, 1)
    ws.send("shell", {"msg_id": "", "msg_type": "execute_request", "session": "s"}, {"code": "1"})
    ws.send("iopub", ws.header("status"), {"execution_state": "idle"})
    ws.send("sideways", ws.header("execute_request"), {"code": "1"})
    reply, _ = ws.answer(ws.ask("execute_request", {"code": 7}))
    assert reply["content"]["status"] == "error", reply
    assert ws.answer(ws.execute("1"))[0]["content"]["status"] == "ok"
    # One message has a bound, in fragments as well.
    try:
        for n in range(20):
            ws.write(bytes(1 << 20), 2 if n == 0 else 0, fin=False)
        while True:
            ws.receive()
    except (Closed, OSError):
        pass
    ws.close()
    threads = [threading.Thread(target=lambda: Channels(a, k["id"]).close()) for _ in range(30)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def end(a, k):
    ws = Channels(a, k["id"])
    a.request("DELETE", "/jupyter/api/kernels/" + k["id"])
    try:
        while True:
            ws.receive()
    except Closed:
        pass
    refused(404, "not_found", a.json, "GET", "/jupyter/api/kernels/" + k["id"])
    assert a.json("GET", "/v1/sandboxes/" + k["sandbox_id"])["state"] == "ended"


def main():
    with Appliance() as a:
        k = rest(a)
        for step in (doors, cells, queue, two_clients, interrupt_and_death, take_up, slow, pause, garbage, end):
            began = time.monotonic()
            step(a, k)
            print(f"{step.__name__}: {time.monotonic() - began:.1f} s", flush=True)


main()
