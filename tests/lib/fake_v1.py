"""An appliance of the test's own for the command: reference v1 over HTTP/1.1 on loopback.

The fake does what the code it gets says, so that every event, ending and failure
can be had at will.
"""
import base64
import contextlib
import http.server
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CARREL = os.path.join(os.path.abspath(os.environ.get("CARREL_BUILD", os.path.join(TOP, "build"))), "carrel")
KEY = "e2b_" + "0" * 64
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


# Oldest first; the list gives them the other way, two a page.
EXECUTIONS = [
    {"execution_id": "exe-a", "status": "ok", "code": "x = 1\nprint(x)", "started_at": "2026-01-01T10:00:00.000Z",
     "outputs": [{"n": 1, "kind": "stdout", "text": "1\n", "bytes": 2, "truncated": False},
                 {"n": 2, "kind": "result", "text": "42", "bytes": 2, "truncated": False, "mime": "text/plain",
                  "data": {"text/plain": "42", "text/html": "<b>42</b>"}}]},
    {"execution_id": "exe-b", "status": "error", "code": "bad", "started_at": "2026-01-01T10:00:01.000Z",
     "outputs": [{"n": 1, "kind": "stderr", "text": "warned\n", "bytes": 7, "truncated": False},
                 {"n": 2, "kind": "error", "text": "ValueError: bad", "bytes": 15, "truncated": False,
                  "data": {"name": "ValueError", "value": "bad", "traceback": ["\x1b[31mTraceback\x1b[0m", "ValueError: bad"]}}]},
    {"execution_id": "exe-run", "status": "running", "code": "slow()", "started_at": "2026-01-01T10:00:02.000Z",
     "outputs": [{"n": 3, "kind": "stdout", "text": "half\n", "bytes": 900000, "truncated": True}]},
]


class Fake(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.sandboxes, self.files, self.asked, self.made = {}, {}, [], 0
        self.health = {}
        self.interrupted, self.ended, self.streams = threading.Event(), [], 0
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, value=None, raw=None):
        body = raw if raw is not None else b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, code, message, field=None):
        self.answer(status, {"code": code, "message": message, **({"field": field} if field else {})})

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            whole = b""
            while size := int(self.rfile.readline(), 16):
                whole += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return whole
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def begin_stream(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def send(self, raw):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))
        self.wfile.flush()

    def event(self, **event):
        self.send(json.dumps(event).encode() + b"\n")

    def end_stream(self):
        self.wfile.write(b"0\r\n\r\n")

    def handle_any(self):
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a command that left
            self.handle_request()

    def handle_request(self):
        s = self.server
        body = self.body()
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        parts = url.path.strip("/").split("/")
        s.asked.append((self.command, self.path, body))
        if url.path == "/healthz":
            return self.answer(200, s.health)
        if self.headers.get("Authorization") != "Bearer " + KEY:
            return self.refuse(401, "unauthorized", "This key opens nothing.")
        if parts[:2] == ["v1", "executions"]:
            return self.execution(parts, query)
        if parts[1] == "snapshots":
            if self.command == "DELETE":
                return self.answer(204) if parts[2] == "snap-1" else self.refuse(404, "not_found", "There is no such snapshot.")
            return self.answer(200, {"snapshots": [{"id": "snap-1", "name": "n\u00e4me", "sandbox_id": "sbx-1", "template": "python",
                                                    "bytes": 20 << 20, "created_at": "2026-01-01T00:00:00.000Z"}], "next": None})
        if parts[1] in ("owners", "keys", "templates"):
            return self.people(parts, json.loads(body or b"{}"))
        if len(parts) == 2:
            return self.create(json.loads(body)) if self.command == "POST" else self.list(query)
        if parts[2] not in s.sandboxes:
            return self.refuse(404, "not_found", "There is no such sandbox.")
        if self.command == "DELETE" and len(parts) == 3:
            s.ended.append(parts[2])
            return self.answer(204)
        if len(parts) == 3:
            return self.answer(200, s.sandboxes[parts[2]])
        if parts[3] == "executions":
            at = int(query.get("cursor", 0))
            rows = EXECUTIONS[::-1][at:at + 2]
            return self.answer(200, {"executions": rows, "next": str(at + 2) if at + 2 < len(EXECUTIONS) else None})
        if parts[3] in ("pause", "resume"):
            return self.refuse(409, "not_supported", "This sandbox cannot be paused.")
        if parts[3] == "snapshots":
            return self.answer(201, {"id": "snap-1", **json.loads(body), "sandbox_id": parts[2]})
        if parts[3] == "fork":
            made = [{"id": f"sbx-fork-{n}"} for n in range(json.loads(body)["count"] - 1)]
            return self.answer(201, {"sandboxes": made + [{"error": {"code": "capacity", "message": "There is no room."}}]})
        if parts[3] == "files":
            return self.file(parts[2], query["path"], body)
        return self.run(json.loads(body)) if parts[3] == "execute" else self.process(json.loads(body))

    do_GET = do_POST = do_PUT = do_DELETE = handle_any

    def create(self, spec):
        if spec.get("engine") == "jail":
            return self.refuse(400, "unknown_engine", "There is no engine jail here.", "engine")
        if spec.get("template") == "slow":
            self.server.streams += 1
            time.sleep(1)
        self.server.made += 1
        sandbox = {"id": f"sbx-{self.server.made}", "state": "running", "engine": "tcg", "template": "python",
                   "started": "clone", "created_at": "2026-01-01T00:00:00.000Z",
                   "deadline": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() + 299)), **spec}
        self.server.sandboxes[sandbox["id"]] = sandbox
        self.answer(201, sandbox)

    def list(self, query):
        rows = list(self.server.sandboxes.values())
        if query.get("state") == "ended" and rows:
            rows = [dict(rows[0], state="ended", end_reason="deadline")]
        at = int(query.get("cursor", 0))
        self.answer(200, {"sandboxes": rows[at:at + 1], "next": str(at + 1) if at + 1 < len(rows) else None})

    def file(self, sandbox, path, body):
        files = self.server.files
        if path == "dir":
            return self.refuse(400, "is_a_directory", "dir is a directory.")
        if self.command == "PUT":
            files[sandbox, path] = body
            return self.answer(201, {"path": path, "size": len(body)})
        if (sandbox, path) not in files:
            return self.refuse(404, "no_such_file", f"There is no file {path}.")
        self.answer(200, raw=files[sandbox, path])

    def people(self, parts, spec):
        if parts[1] == "templates":
            rows = [{"name": "python", "image": "0123abcd", "built_at": "2026-01-01T00:00:00.000Z",
                     "languages": ["python"], "limits": {"memory_mb": 1024, "cpus": 1.5}}]
            return self.answer(200, {"templates": rows, "next": None})
        if self.command == "DELETE":
            return self.answer(204) if parts[2] == "key-1" else self.refuse(404, "not_found", "There is no such key.")
        if self.command == "GET":
            return self.answer(200, {parts[-1].split("?")[0]: [{"id": "own-1", "name": "first", "quota": {"sandboxes": 2}}], "next": None})
        if spec.get("name") == "taken":
            return self.refuse(409, "exists", "There is an owner of that name.", "name")
        self.answer(201, {"id": "key-1", "key": KEY, **spec} if parts[-1] == "keys" else {"id": "own-1", **spec})

    def execution(self, parts, query):
        if parts[-1] == "interrupt":
            self.server.interrupted.set()
            return self.answer(204)
        found = [e for e in EXECUTIONS if e["execution_id"] == parts[2]]
        if parts[-1] == "full":
            return self.answer(206, raw=PNG * 5000)
        if parts[-1] != "stream":
            return self.answer(200, found[0]) if found else self.refuse(404, "not_found", "There is no such execution.")
        if parts[2] == "exe-run":
            return self.running(int(query["after"]))
        self.begin_stream()
        for seq in range(int(query["after"]) + 1, 5):
            self.event(type="stdout", seq=seq, text=f"line {seq}\n")
        self.event(type="end", seq=5, status="ok", duration_ms=1)
        self.end_stream()

    def running(self, after):
        """A run that others began: breaks off once, and ends when it is told to."""
        self.begin_stream()
        if after == 0:
            self.event(type="started", seq=1, execution_id="exe-run", execution_count=2)
            self.event(type="stdout", seq=2, text="half\n")
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.event(type="stdout", seq=3, text="other half\n")
        self.server.streams += 1
        while not self.server.interrupted.wait(0.05):
            self.event(type="keepalive")
        self.event(type="end", seq=4, status="error", exit_code=6, duration_ms=1)
        self.end_stream()

    def run(self, spec):
        self.begin_stream()
        self.event(type="started", seq=1, execution_id="exe-1", execution_count=1)
        scene = getattr(self, "scene_" + spec["code"].split()[0], None)
        ending = scene(spec) if scene else {"status": "ok"}
        if ending is None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.event(type="end", seq=99, duration_ms=1, **ending)
        self.end_stream()

    def scene_live(self, spec):
        self.event(type="stdout", seq=2, text="first\n")
        time.sleep(1)
        self.event(type="keepalive")
        self.event(type="stderr", seq=3, text="warned\n")
        self.event(type="stdout", seq=4, text="last \u6f22\n")
        return {"status": "ok"}

    def scene_split(self, spec):
        line = json.dumps({"type": "stdout", "seq": 2, "text": "x" * 300000 + "\n"}).encode() + b"\n"
        for at in range(0, len(line), 7001):
            self.send(line[at:at + 7001])
        return {"status": "ok"}

    def scene_raise(self, spec):
        self.event(type="error", seq=2, name="ValueError", value="bad",
                   traceback=["\x1b[31mTraceback\x1b[0m line 1", "ValueError: bad"])
        return {"status": "error"}

    def scene_exit(self, spec):
        return {"status": "error", "exit_code": int(spec["code"].split()[1])}

    def scene_leave(self, spec):
        self.event(type="error", seq=2, name="SystemExit", value=spec["code"].partition(" ")[2], traceback=[])
        return {"status": "error"}

    def scene_segv(self, spec):
        return {"status": "died", "reason": "crashed", "signal": "SIGSEGV"}

    def scene_slow(self, spec):
        return {"status": "timeout", "reason": "timeout"}

    def scene_plot(self, spec):
        self.event(type="display", seq=2, data={"image/png": base64.encodebytes(PNG).decode(), "text/plain": "<Figure>"})
        self.event(type="result", seq=3, data={"text/plain": "42", "text/html": "<b>42</b>"}, is_main_result=True)
        return {"status": "ok"}

    def scene_write(self, spec):
        self.server.files[f"sbx-{self.server.made}", "out.bin"] = PNG * 1000
        return {"status": "ok"}

    def scene_long(self, spec):
        self.send(b'{"type":"stdout","seq":2,"text":"' + b"y" * (1 << 20) + b'"}\n')
        return {"status": "ok"}

    def scene_cut(self, spec):
        self.event(type="stdout", seq=2, text="line 2\n")
        self.send(b'{"type":"stdout","seq":3,"te')

    def scene_wait(self, spec):
        self.event(type="stdout", seq=2, text="waiting\n")
        self.server.streams += 1
        while not self.server.interrupted.wait(0.05):
            self.event(type="keepalive")
        if "stubborn" in spec["code"]:
            with contextlib.suppress(OSError):
                while True:
                    self.event(type="keepalive")
                    time.sleep(0.05)
        return {"status": "interrupted"}

    def process(self, spec):
        self.begin_stream()
        self.event(type="started", seq=1, pid=7)
        self.event(type="stdout", seq=2, text=spec.get("stdin", "none"))
        self.event(type="stdout", seq=3, b64=base64.b64encode(b"\xff\x00").decode())
        self.event(type="stderr", seq=4, text=" ".join(spec["argv"]))
        if spec["argv"][0] == "sleep":
            self.event(type="end", seq=5, signal="SIGKILL", reason="timeout", duration_ms=1)
        else:
            self.event(type="end", seq=5, exit_code=3, duration_ms=1)
        self.end_stream()


def settings(fake, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("CARREL") and k != "STATE"}
    # A proxy of the machine's must not get what is meant for loopback.
    env.update(CARREL_URL=fake.url, CARREL_TOKEN=KEY, CARREL_CONF="/nonexistent", http_proxy="http://127.0.0.1:9")
    env.update(more)
    return {k: v for k, v in env.items() if v is not None}


def carrel(fake, *words, code=0, stdin=b"", env=None, cwd=None):
    done = subprocess.run([CARREL, *words], input=stdin, capture_output=True, timeout=60, env=env or settings(fake), cwd=cwd)
    assert done.returncode == code, (words, done.returncode, done.stdout[-500:], done.stderr[-500:])
    return done.stdout, done.stderr.decode()


def wait_for(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def start(tests):
    """Runs each test with a fake and a directory of its own name."""
    if not os.path.exists(CARREL):
        print("build/carrel is not built")
        sys.exit(77)
    fake = Fake()
    for test in tests:
        with tempfile.TemporaryDirectory(prefix="carrel-command-") as d:
            test(fake, d)
    fake.shutdown()
