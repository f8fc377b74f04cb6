#!/usr/bin/python3
"""The command against an appliance of the test's own: what it sends, shows, saves, and exits with.

The fake speaks reference v1 over HTTP/1.1 on loopback and does what the code it
gets says, so that every event, ending and failure can be had at will.
"""
import base64
import contextlib
import http.server
import json
import os
import signal
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


class Fake(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.sandboxes, self.files, self.asked, self.made = {}, {}, [], 0
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
        if self.headers.get("Authorization") != "Bearer " + KEY:
            return self.refuse(401, "unauthorized", "This key opens nothing.")
        if parts[:2] == ["v1", "executions"]:
            return self.execution(parts, query)
        if len(parts) == 2:
            return self.create(json.loads(body)) if self.command == "POST" else self.list(query)
        if parts[2] not in s.sandboxes:
            return self.refuse(404, "not_found", "There is no such sandbox.")
        if self.command == "DELETE" and len(parts) == 3:
            s.ended.append(parts[2])
            return self.answer(204)
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
        if query.get("state") == "ended":
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

    def execution(self, parts, query):
        if parts[-1] == "interrupt":
            self.server.interrupted.set()
            return self.answer(204)
        self.begin_stream()
        for seq in range(int(query["after"]) + 1, 5):
            self.event(type="stdout", seq=seq, text=f"line {seq}\n")
        self.event(type="end", seq=5, status="ok", duration_ms=1)
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


def test_run(fake, d):
    out, err = carrel(fake, "run", "-c", "exit 0")
    assert (out, err) == (b"", "")
    assert fake.ended == [f"sbx-{fake.made}"], "the sandbox is deleted at the end"
    out, err = carrel(fake, "run", "-c", "raise", code=1)
    assert err == "Traceback line 1\nValueError: bad\n", err
    carrel(fake, "run", "-c", "exit 7", code=7)
    out, err = carrel(fake, "run", "-c", "segv", code=128 + signal.SIGSEGV)
    assert "SIGSEGV" in err
    out, err = carrel(fake, "run", "--timeout", "5", "-c", "slow", code=124)
    assert "out of time" in err
    assert json.loads([b for m, p, b in fake.asked if p.endswith("/execute")][-1]) == {"code": "slow", "timeout_s": 5}
    out, err = carrel(fake, "run", "-c", "split")
    assert out == b"x" * 300000 + b"\n"
    out, err = carrel(fake, "run", "-c", "long", code=1)
    assert "1 MiB" in err, err
    out, err = carrel(fake, "run", "-c", "cut")
    assert out == b"line 2\nline 3\nline 4\n", "a broken stream is taken up where it broke"
    out, err = carrel(fake, "run", "--engine", "jail", "-c", "1", code=1)
    assert err == "carrel: There is no engine jail here. (field engine)\n", err
    out, err = carrel(fake, "--json", "run", "-c", "exit 4", code=4)
    assert [json.loads(line)["type"] for line in out.splitlines()] == ["started", "end"]
    assert len(fake.ended) == fake.made


def test_live(fake, d):
    began = time.monotonic()
    p = subprocess.Popen([CARREL, "run", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         env=settings(fake))
    p.stdin.write(b"live")
    p.stdin.close()
    assert p.stdout.readline() == b"first\n"
    assert time.monotonic() - began < 0.9, "output is shown as it comes"
    assert p.stdout.read() == "last \u6f22\n".encode()
    assert p.stderr.read() == b"warned\n"
    assert p.wait(20) == 0


def test_files(fake, d):
    data = os.urandom(3_000_000)
    with open(os.path.join(d, "data.bin"), "wb") as f:
        f.write(data)
    with open(os.path.join(d, "code.py"), "w", encoding="ascii") as f:
        f.write("write")
    carrel(fake, "run", "code.py", "--put", "data.bin", "--put", "data.bin:/tmp/\u6f22 x", "--get", "out.bin",
           "--get", "out.bin:renamed", cwd=d)
    box = f"sbx-{fake.made}"
    assert fake.files[box, "data.bin"] == data and fake.files[box, "/tmp/\u6f22 x"] == data
    for name in ("out.bin", "renamed"):
        with open(os.path.join(d, name), "rb") as f:
            assert f.read() == PNG * 1000
    made = fake.made
    out, err = carrel(fake, "run", "code.py", "--put", "nowhere", code=1, cwd=d)
    assert "nowhere: No such file" in err and fake.made == made, "known failures make no sandbox"
    out, err = carrel(fake, "run", "-c", "exit 5", "--get", "none", code=5, cwd=d)
    assert "There is no file none." in err
    out, err = carrel(fake, "run", "-c", "exit 0", "--get", "none", code=1, cwd=d)
    assert not os.path.exists(os.path.join(d, "none"))
    out, err = carrel(fake, "run", "-c", "plot")
    assert out == b"42\n" and "[picture 1: image/png" in err, (out, err)
    carrel(fake, "run", "-c", "plot", "--images", d)
    with open(os.path.join(d, "carrel-1.png"), "rb") as f:
        assert f.read() == PNG


def test_cp(fake, d):
    data = os.urandom(500_000)
    with open(os.path.join(d, "a"), "wb") as f:
        f.write(data)
    carrel(fake, "cp", "a", "sbx-1:", cwd=d)
    assert fake.files["sbx-1", "a"] == data
    carrel(fake, "cp", "a", "sbx-1:dir", cwd=d)
    assert fake.files["sbx-1", "dir/a"] == data, "a directory takes the file's name"
    carrel(fake, "cp", "-", "sbx-1:piped", stdin=data)
    assert fake.files["sbx-1", "piped"] == data, "chunked, without a length"
    out, err = carrel(fake, "cp", "sbx-1:a", "-")
    assert out == data
    os.mkdir(os.path.join(d, "into"))
    carrel(fake, "cp", "sbx-1:a", "into", cwd=d)
    with open(os.path.join(d, "into", "a"), "rb") as f:
        assert f.read() == data
    assert os.listdir(os.path.join(d, "into")) == ["a"], "no temporary file is left"
    out, err = carrel(fake, "cp", "sbx-1:none", "into", code=1, cwd=d)
    assert err == "carrel: There is no file none.\n" and os.listdir(os.path.join(d, "into")) == ["a"]
    out, err = carrel(fake, "cp", "a", "sbx-999:", code=1, cwd=d)
    assert "no such sandbox" in err
    carrel(fake, "cp", "a", "b", code=2, cwd=d)


def test_ls_kill_exec(fake, d):
    out, err = carrel(fake, "ls")
    lines = out.decode().splitlines()
    assert len(lines) == fake.made + 1 and lines[0].split() == "ID STATE ENGINE TEMPLATE STARTED CREATED LEFT".split()
    assert len({line.index(word) for line, word in zip(lines, ["STATE"] + ["running"] * fake.made)}) == 1, "aligned"
    assert "4m" in lines[1], lines[1]
    out, err = carrel(fake, "ls", "--all", "--json")
    rows = json.loads(out)
    assert len(rows) == fake.made + 1 or rows[-1]["end_reason"] == "deadline"
    out, err = carrel(fake, "kill", "sbx-1", "sbx-777", "sbx-2", code=1)
    assert out == b"sbx-1\nsbx-2\n" and "no such sandbox" in err
    out, err = carrel(fake, "exec", "sbx-1", "--", "cat", "--help", stdin="gr\u00fc\u00dfe".encode(), code=3)
    assert out == "gr\u00fc\u00dfe".encode() + b"\xff\x00" and err == "cat --help", (out, err)
    out, err = carrel(fake, "exec", "-n", "--timeout", "2", "sbx-1", "sleep", "9", stdin=b"x", code=124)
    assert out.startswith(b"none")
    carrel(fake, "exec", "sbx-1", "--", "cat", stdin=b"\xff", code=1)


def test_signals(fake, d):
    def start(*words):
        fake.interrupted.clear()
        streams = fake.streams
        p = subprocess.Popen([CARREL, "run", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=settings(fake))
        wait_for(lambda: fake.streams > streams)
        assert p.stdout.readline() == b"waiting\n"
        return p

    p = start("-c", "wait")
    p.send_signal(signal.SIGINT)
    assert p.wait(20) == 130 and fake.interrupted.is_set()
    assert fake.ended[-1] == f"sbx-{fake.made}"
    p = start("-c", "wait stubborn")
    p.send_signal(signal.SIGINT)
    wait_for(fake.interrupted.is_set)
    p.send_signal(signal.SIGINT)
    assert p.wait(20) == 130 and fake.ended[-1] == f"sbx-{fake.made}"
    p = start("-c", "wait")
    p.send_signal(signal.SIGTERM)
    assert p.wait(20) == 143 and fake.ended[-1] == f"sbx-{fake.made}"
    streams = fake.streams
    p = subprocess.Popen([CARREL, "run", "--template", "slow", "-c", "x"], stdin=subprocess.DEVNULL, env=settings(fake))
    wait_for(lambda: fake.streams > streams)
    p.send_signal(signal.SIGINT)
    assert p.wait(20) == 130 and fake.ended[-1] == f"sbx-{fake.made}", "a sandbox on its way is deleted, too"
    fake.interrupted.set()
    ended = len(fake.ended)
    out, err = carrel(fake, "run", "--keep", "-c", "exit 0")
    assert "is kept" in err and len(fake.ended) == ended
    carrel(fake, "run", "--sandbox", "sbx-1", "-c", "exit 0")
    assert len(fake.ended) == ended


def test_where(fake, d):
    out, err = carrel(fake, "ls", code=3, env=settings(fake, CARREL_URL="http://127.0.0.1:9"))
    assert "make run" in err and "CARREL_URL" in err
    out, err = carrel(fake, "ls", code=3, env=settings(fake, CARREL_URL=None, CARREL_TOKEN=None), cwd=d)
    assert "make run" in err
    out, err = carrel(fake, "ls", code=1, env=settings(fake, CARREL_TOKEN="wrong"))
    assert err == "carrel: This key opens nothing.\n"
    os.mkdir(os.path.join(d, "state"))
    for name, text in (("url", fake.url), ("token", KEY)):
        with open(os.path.join(d, "state", name), "w", encoding="ascii") as f:
            f.write(text + "\n")
    carrel(fake, "ls", env=settings(fake, CARREL_URL=None, CARREL_TOKEN=None), cwd=d)
    carrel(fake, "ls", env=settings(fake, CARREL_URL=None, CARREL_TOKEN=None, STATE=os.path.join(d, "state")))
    out, err = carrel(fake, "ls", code=1, env=settings(fake, CARREL_URL="http://127.0.0.2:9", CARREL_TOKEN=None), cwd=d)
    assert "no key for" in err, "a key goes to its own appliance only"
    conf = os.path.join(d, "carrel.conf")
    with open(conf, "w", encoding="ascii") as f:
        f.write(f"# where it is\nURL = {fake.url}/\nTOKEN={KEY}\n")
    carrel(fake, "ls", env=settings(fake, CARREL_URL=None, CARREL_TOKEN=None, CARREL_CONF=conf))


def test_usage(fake, d):
    for words in ([], ["nothing"], ["--what"], ["run"], ["run", "a", "b"], ["run", "-c"], ["run", "-c", "1", "--timeout", "0"],
                  ["kill"], ["exec", "sbx-1"], ["ls", "x"], ["cp", "x"], ["run", "-c", "1", "--env", "x"]):
        out, err = carrel(fake, *words, code=2)
        assert "carrel" in err and out == b"", words
    out, err = carrel(fake, "--help")
    for verb in ("run", "ls", "exec", "cp", "kill"):
        assert verb.encode() in out
        assert b"usage: carrel " + verb.encode() in carrel(fake, verb, "--help")[0]


def main():
    if not os.path.exists(CARREL):
        print("build/carrel is not built")
        sys.exit(77)
    fake = Fake()
    for test in (test_run, test_live, test_files, test_cp, test_ls_kill_exec, test_signals, test_where, test_usage):
        with tempfile.TemporaryDirectory(prefix="carrel-command-") as d:
            test(fake, d)
    fake.shutdown()


main()
