"""nginx and carreld with a stand-in for the core: the front alone, on real sockets.

Built on the spot with a short stall time, run as an unprivileged user where the
caller is root, everything below one temporary directory that goes with it.
"""
import contextlib
import glob
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
UID = 64811
STALL_S = 2
STREAMS = 8
SHORT = 4
START_S = 15


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def build(into, sanitizer=None):
    """carreld with tests/lib/fake_core in place of the core."""
    sources = [s for d in ("appliance", "appliance/front", "appliance/store", "tests/lib/fake_core")
               for s in sorted(glob.glob(os.path.join(TOP, d, "*.c")))]
    program = os.path.join(into, "carreld")
    flags = [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"] if sanitizer else []
    subprocess.run(["cc", "-std=gnu11", "-D_GNU_SOURCE", f"-DRESPOND_STALL_S={STALL_S}", "-I.", "-Ikernels", "-O1",
                    "-g", "-pthread", *flags, *sources, os.path.join(TOP, "appliance/core/bytepipe.c"),
                    os.path.join(TOP, "appliance/core/instant.c"), "-o", program,
                    "-lfcgi", "-ljansson", "-lsqlite3", "-lcrypto"], cwd=TOP, check=True)
    return program


class Front:
    def __init__(self, sanitizer=None):
        self.dir = tempfile.mkdtemp(prefix="carrel-front-")
        os.chmod(self.dir, 0o755)
        self.sanitizer = sanitizer
        self.port = free_port()
        self.parts = {}

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def spawn(self, name, argv):
        log = open(self.path(name + ".log"), "ab")
        drop = {"user": UID, "group": UID, "extra_groups": []} if os.geteuid() == 0 else {}
        self.parts[name] = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **drop)
        log.close()

    def start_carreld(self):
        self.spawn("carreld", [self.program, "--state", self.path("state"), "--run", self.path("run"), "--image", "/none",
                               "--short-threads", str(SHORT), "--stream-threads", str(STREAMS)])

    def start_nginx(self):
        self.spawn("nginx", ["/usr/sbin/nginx", "-e", self.path("nginx", "error.log"), "-c",
                             self.path("nginx", "nginx.conf"), "-p", self.path("nginx") + "/"])

    def __enter__(self):
        self.program = build(self.dir, self.sanitizer)
        for d in ("state", "run", "nginx", "www"):
            os.mkdir(self.path(d))
        with open(self.path("www", "index.html"), "w", encoding="utf-8") as f:
            f.write("<!doctype html><title>page</title>")
        subprocess.run([os.path.join(TOP, "conf", "nginx"), self.path("nginx"), self.path("run"), str(self.port),
                        "127.0.0.1", self.path("www")], check=True)
        if os.geteuid() == 0:
            for d in ("state", "run", "nginx"):
                os.chown(self.path(d), UID, UID)
        self.start_carreld()
        self.start_nginx()
        self.wait_health()
        with open(self.path("state", "token"), encoding="ascii") as f:
            self.key = f.read().strip()
        return self

    def wait_health(self):
        deadline = time.monotonic() + START_S
        while True:
            with contextlib.suppress(OSError):
                if self.call("GET", "/healthz", key=None)[0] == 200:
                    return
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.05)

    def logs(self):
        out = ""
        for name in self.parts:
            with open(self.path(name + ".log"), encoding="utf-8", errors="replace") as f:
                out += f"--- {name}\n" + f.read()[-4000:]
        return out

    def stop(self, name, sig=signal.SIGTERM):
        p = self.parts.pop(name)
        p.send_signal(sig)
        return p.wait(30)

    def __exit__(self, kind, *_):
        codes = {name: self.stop(name) for name in list(self.parts)}
        if kind:
            for name in ("nginx", "carreld"):
                with open(self.path(name + ".log"), encoding="utf-8", errors="replace") as f:
                    print(f"--- {name}\n" + f.read()[-4000:])
        left = os.listdir(self.path("run"))
        shutil.rmtree(self.dir)
        assert kind or not any(codes.values()), f"exit codes {codes}"
        assert kind or not left, f"left in the run directory: {left}"

    # --- requests ---

    def connect(self, timeout=30):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def open(self, method, path, body=None, headers=None, key="", chunked=False, timeout=30):
        headers = dict(headers or {})
        if key is not None:
            headers["Authorization"] = "Bearer " + (key or self.key)
        if isinstance(body, dict):
            body = json.dumps(body).encode()
        c = self.connect(timeout)
        c.request(method, path, body=body, headers=headers, encode_chunked=chunked)
        return c, c.getresponse()

    def call(self, method, path, body=None, **kw):
        """-> (status, body: JSON where it is JSON, headers)"""
        c, r = self.open(method, path, body, **kw)
        with contextlib.closing(c):
            data = r.read()
        if r.headers.get("Content-Type") == "application/json" and data:
            data = json.loads(data)
        return r.status, data, r.headers

    def raw(self, data, timeout=10):
        """Bytes as they are -> (status, headers and body as text)"""
        with socket.create_connection(("127.0.0.1", self.port), timeout) as s:
            s.sendall(data)
            answer = b""
            while True:
                piece = s.recv(65536)
                if not piece:
                    break
                answer += piece
        head, _, body = answer.decode("utf-8", "replace").partition("\r\n\r\n")
        return int(re.match(r"HTTP/1\.1 (\d+)", head).group(1)), head, body

    def streams_open(self):
        return self.call("GET", "/v1/stats")[1]["streams"]["open"]
