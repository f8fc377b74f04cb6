#!/usr/bin/python3
"""Jupyter clients on the appliance's own host: jupyter_client on the sockets of a kernel's connection file, ipc and tcp,
several at once, with floods, questions, interrupts and the kernel's end; who may connect, and what is left."""
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import TOP, Appliance, Refused, refused, skip  # noqa: E402

try:
    from jupyter_client import BlockingKernelClient
except ImportError:
    skip("Debian's python3-jupyter-client is not installed")

CARREL = os.path.join(TOP, "build", "carrel")
REPLY_S = 60
FLOOD = 3_000_000
NOBODY = 65534


class Local(BlockingKernelClient):
    """A client on the sockets of that connection file."""

    def __init__(self, connection):
        super().__init__()
        self.load_connection_info(connection)
        self.start_channels()
        self.wait_for_ready(timeout=REPLY_S)

    def run(self, code, **kw):
        """-> (reply's content, stdout)"""
        out = []

        def hook(m):
            if m["msg_type"] == "stream" and m["content"]["name"] == "stdout":
                out.append(m["content"]["text"])
        reply = self.execute_interactive(code, timeout=REPLY_S, output_hook=hook, **kw)
        return reply["content"], "".join(out)


def connection(a, kernel, transport="ipc"):
    return a.json("GET", f"/v1/kernels/{kernel}/connection?transport={transport}")


def cells(a, kernel, transport):
    c = Local(connection(a, kernel, transport))
    assert c.run(f"x = '{transport}'; print(x, 6 * 7)")[1] == f"{transport} 42\n"
    reply, _ = c.run("1 / 0")
    assert reply["ename"] == "ZeroDivisionError", reply
    assert c.run("print(input('who? '))", allow_stdin=True, stdin_hook=lambda m: c.input("Bo"))[1] == "Bo\n"
    found = c.complete("x.upp", reply=True, timeout=REPLY_S)["content"]
    assert ["x.upper"] == ["x.upp"[:found["cursor_start"]] + m for m in found["matches"]], found
    c.execute("print('in', flush=True)\nimport time\ntime.sleep(600)")
    while c.get_iopub_msg(timeout=REPLY_S)["msg_type"] != "stream":
        pass
    c.control_channel.send(c.session.msg("interrupt_request", {}))
    assert c.get_shell_msg(timeout=REPLY_S)["content"]["ename"] == "KeyboardInterrupt"
    # What came over this door is an execution like any other.
    sandbox = a.json("GET", "/jupyter/api/kernels/" + kernel)["sandbox_id"]
    codes = [x["code"] for x in a.json("GET", f"/v1/sandboxes/{sandbox}/executions")["executions"]]
    assert "1 / 0" in codes, codes
    c.stop_channels()


def together(a, kernel):
    """Two programs share the kernel: each has its own replies, both hear the output."""
    one, two = Local(connection(a, kernel)), Local(connection(a, kernel))
    results = {}

    def ask(c, name):
        results[name] = [c.run(f"{i} and print('{name}', {i})") for i in range(1, 11)]
    threads = [threading.Thread(target=ask, args=x) for x in ((one, "one"), (two, "two"))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for name in ("one", "two"):
        assert [r["status"] for r, _ in results[name]] == ["ok"] * 10, results[name]
        assert [o for _, o in results[name]] == [f"{name} {i}\n" for i in range(1, 11)], results[name]
    with contextlib.closing(two.context.socket(6)) as stranger:  # a REQ's DEALER half would do; this one has no key
        stranger.linger = 0
        stranger.connect("ipc://" + two.ip + f"-{two.shell_port}")
        stranger.send_multipart([b"<IDS|MSG>", b"0" * 64, b'{"msg_id":"1","msg_type":"execute_request","session":"s"}', b"{}",
                                 b"{}", b'{"code":"forged = 1"}'])
        assert one.run("print('forged' in globals())")[1] == "False\n"
    one.stop_channels()
    two.stop_channels()


def flood(a, kernel):
    """A subscriber that does not read loses nothing, and holds up nobody's reply but those of its kernel."""
    c = Local(connection(a, kernel))
    msg_id = c.execute(f"for i in range({FLOOD // 100}): print(f'{{i:099}}')")
    time.sleep(3)
    got, done = [], False
    while not done:
        m = c.get_iopub_msg(timeout=REPLY_S)
        if m["parent_header"].get("msg_id") != msg_id:
            continue
        if m["msg_type"] == "stream":
            got.append(m["content"]["text"])
        done = m["msg_type"] == "status" and m["content"]["execution_state"] == "idle"
    assert "".join(got) == "".join(f"{i:099}\n" for i in range(FLOOD // 100)), len("".join(got))
    assert c.get_shell_msg(timeout=REPLY_S)["content"]["status"] == "ok"
    c.stop_channels()


def permissions(a, kernel):
    """ipc: nobody else on this host."""
    info = connection(a, kernel)
    path = f"{info['ip']}-{info['shell_port']}"
    assert path.startswith(os.path.join(a.state, "connections")), path
    code = f"import socket; socket.socket(socket.AF_UNIX).connect({path!r})"
    subprocess.run([sys.executable, "-c", code], check=True)
    os.chmod(a.state, 0o755)  # a test's own directory would do the keeping
    refusal = subprocess.run([sys.executable, "-c", code], user=NOBODY, group=NOBODY, extra_groups=[], stderr=subprocess.PIPE, text=True, check=False)
    assert refusal.returncode and "PermissionError" in refusal.stderr, refusal
    tcp = connection(a, kernel, "tcp")
    assert tcp["ip"] == "127.0.0.1" and tcp["key"] != info["key"], (tcp, info)
    assert connection(a, kernel) == info, "asked again, it is the same"
    other = a.json("POST", "/v1/owners", {"name": "other"})
    key = a.json("POST", f"/v1/owners/{other['id']}/keys", {})["key"]
    refused(404, "not_found", a.json, "GET", f"/v1/kernels/{kernel}/connection", headers={"Authorization": "Bearer " + key})


def command(a, kernel, sandbox):
    """`carrel connection` writes what Jupyter reads."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "CARREL_URL": f"http://127.0.0.1:{a.port}", "CARREL_TOKEN": a.token, "JUPYTER_RUNTIME_DIR": folder}
        path = subprocess.run([CARREL, "connection", sandbox], env=env, check=True, capture_output=True, text=True).stdout.strip()
        assert path == os.path.join(folder, f"kernel-{kernel}.json") and os.stat(path).st_mode & 0o777 == 0o600, path
        with open(path, encoding="utf-8") as f:
            info = json.load(f)
        assert info == connection(a, kernel), info
        one = os.path.join(folder, "one.json")
        subprocess.run([CARREL, "connection", "--tcp", "-f", one, kernel], env=env, check=True, stdout=subprocess.DEVNULL)
        with open(one, encoding="utf-8") as f:
            info = json.load(f)
        assert info["transport"] == "tcp", info
        c = Local(info)
        assert c.run("print('by file')")[1] == "by file\n"
        c.stop_channels()
        failed = subprocess.run([CARREL, "connection", "krn-none"], env=env, capture_output=True, text=True, check=False)
        assert failed.returncode == 1 and "no such kernel" in failed.stderr, failed


def death(a, kernel):
    c = Local(connection(a, kernel))
    reply, _ = c.run("import os; os._exit(3)")
    assert reply["ename"] == "KernelDied" and "3" in reply["evalue"], reply
    assert c.run("print('fresh')")[1] == "fresh\n"
    c.stop_channels()


def carreld_restarts(a, kernel):
    """Killed and started again, it is asked for again; nothing of before is in the way."""
    before = connection(a, kernel)
    a.carreld_kill()
    deadline = time.monotonic() + REPLY_S
    after = None
    while not after and time.monotonic() < deadline:
        with contextlib.suppress(Refused, OSError):
            after = connection(a, kernel)
        time.sleep(0.1)
    assert after and after["key"] != before["key"], (before, after)
    c = Local(after)
    assert c.run("print('again')")[1] == "again\n"
    c.stop_channels()


def gone(a, kernel):
    """With its kernel the sockets go."""
    info, tcp = connection(a, kernel), connection(a, kernel, "tcp")
    a.request("DELETE", f"/v1/kernels/{kernel}")
    refused(404, "not_found", connection, a, kernel)
    deadline = time.monotonic() + REPLY_S
    while os.path.exists(os.path.dirname(info["ip"])) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert os.listdir(os.path.join(a.state, "connections")) == []
    with contextlib.closing(socket.socket()) as s:
        while s.connect_ex(("127.0.0.1", tcp["shell_port"])) == 0 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert time.monotonic() < deadline, "the port is open still"


def main():
    with Appliance() as a:
        s = a.create()
        kernel = a.json("GET", f"/v1/sandboxes/{s['id']}/kernels")["kernels"][0]["id"]
        cells(a, kernel, "ipc")
        cells(a, kernel, "tcp")
        together(a, kernel)
        flood(a, kernel)
        permissions(a, kernel)
        command(a, kernel, s["id"])
        death(a, kernel)
        carreld_restarts(a, kernel)
        gone(a, kernel)
        a.kill(s["id"])
        s = a.create()
        connection(a, a.json("GET", f"/v1/sandboxes/{s['id']}/kernels")["kernels"][0]["id"])
        folder = os.path.join(a.state, "connections")
        a.stop()
        assert os.listdir(folder) == []


if __name__ == "__main__":
    main()
