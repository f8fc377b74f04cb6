"""A real appliance for a test: conf/run with a state directory and a port of its own.

    with Appliance() as a:
        sandbox = a.create()
        events = a.execute(sandbox["id"], "print(1)")

Leaving the block stops it as Ctrl-C does and checks that nothing is left: no
process, mount, cgroup or socket that speaks of its state directory.
"""
import contextlib
import http.client
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIP = 77
PART_S = 30  # until a part that died was started again
# A first start makes the warm snapshot: a cold boot under TCG; in the lab under KVM, which is emulated itself.
READY_S = 900 if os.environ.get("CARREL_LAB") else 300


def skip(reason):
    print(reason)
    sys.exit(SKIP)


def until(what, seconds=120, but="it did not come to that"):
    """What it gives, once that is true: for what no event tells of. The time is for a loaded host."""
    deadline = time.monotonic() + seconds
    while not (got := what()):
        assert time.monotonic() < deadline, f"{but} within {seconds} s"
        time.sleep(0.1)
    return got


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Refused(Exception):
    def __init__(self, status, body, headers):
        super().__init__(f"{status} {body!r}")
        self.status, self.body, self.headers = status, body, headers
        try:
            self.error = json.loads(body)
        except ValueError:
            self.error = {}


class Appliance:
    def __init__(self, state=None, arguments=(), **settings):
        self.arguments = arguments
        self.own_state = state is None
        self.state = state or tempfile.mkdtemp(prefix="carrel-test-")
        # left_behind() looks for it in what others run; "second" stands in many a command line.
        assert os.path.basename(self.state).startswith("carrel-"), f"{self.state}: its name must be this test's alone"
        self.port = free_port()
        # Without machines that wait for sandboxes, unless a test is about them.
        self.settings = {"POOL": 0, **settings}
        self.process = self.log = None

    # --- life ---

    def start(self):
        if os.geteuid() != 0:
            skip("an appliance needs root")
        self.log = open(os.path.join(self.state, "run.log"), "ab")
        ready = os.path.join(self.state, "ready")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(ready)
        env = {**os.environ, "PORT": str(self.port), "BIND": "127.0.0.1", "STATE": self.state, "CARREL_READY": ready,
               **{k: str(v) for k, v in self.settings.items()}}
        self.process = subprocess.Popen([os.path.join(TOP, "conf", "run"), *self.arguments], env=env, stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log, start_new_session=True,
                                        # a shell's background job ignores Ctrl-C, and so would its children
                                        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        deadline = time.monotonic() + READY_S
        while not os.path.exists(ready):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("the appliance did not start:\n" + self.tail())
            time.sleep(0.1)
        with open(os.path.join(self.state, "token"), encoding="ascii") as f:
            self.token = f.read().strip()
        return self

    def tail(self):
        with open(os.path.join(self.state, "run.log"), "rb") as f:
            return f.read()[-4000:].decode("utf-8", "replace")

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(60)
        if self.log:
            self.log.close()

    def left_behind(self):
        """Processes, mounts and cgroups that still speak of this appliance."""
        left = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    line = f.read().replace(b"\0", b" ").decode("utf-8", "replace")
                if self.process and os.path.basename(self.state) in line and int(pid) != os.getpid():
                    left.append(f"process {pid}: {line}")
                with open(f"/proc/{pid}/mountinfo", encoding="utf-8") as f:
                    if any(os.path.basename(self.state) in l for l in f):
                        left.append(f"mount in process {pid}: {line}")
        for root, dirs, _ in os.walk("/sys/fs/cgroup"):
            left += [f"cgroup {root}/{d}" for d in dirs if d.startswith("sbx-") and d in self.created]
        return left

    created = frozenset()

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            # Also one that did not get ready in time; nobody else would end it.
            self.stop()
            raise

    def __exit__(self, kind, *_):
        self.stop()
        left = self.left_behind()
        if kind:
            sys.stderr.write("--- the appliance's last lines:\n" + self.tail())
        if self.own_state:
            shutil.rmtree(self.state, ignore_errors=True)
        assert kind or not left, "left behind: " + "; ".join(left)

    def pid_of(self, part):
        """"carreld", "carrel-spawn" or "nginx": this appliance's, a child of its launcher."""
        deadline = time.monotonic() + PART_S
        while True:
            out = subprocess.run(["pgrep", "-P", str(self.process.pid), "-f", rf"^([^ ]*/)?{part}\b"], capture_output=True,
                                 text=True, check=False).stdout
            if out:
                return int(out.split()[0])
            assert time.monotonic() < deadline, f"there is no {part}"
            time.sleep(0.05)  # it is being started again

    def carreld_kill(self):
        """Returns once it is dead; the launcher starts another."""
        pid = self.pid_of("carreld")
        with open(os.pidfd_open(pid), "rb") as dead:
            os.kill(pid, signal.SIGKILL)
            select.select([dead], [], [])

    def serves(self):
        with contextlib.suppress(OSError, http.client.HTTPException, Refused):
            return self.json("GET", "/healthz")["ready"]
        return False

    # --- HTTP ---

    def open(self, method, path, body=None, headers=None, timeout=120):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        headers = {"Authorization": "Bearer " + self.token, **(headers or {})}
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        c.request(method, path, body=body, headers=headers)
        return c, c.getresponse()

    def request(self, method, path, body=None, **kw):
        """-> (status, bytes, headers); raises Refused for 4xx and 5xx."""
        c, r = self.open(method, path, body, **kw)
        with contextlib.closing(c):
            data = r.read()
        if r.status >= 400:
            raise Refused(r.status, data, r.headers)
        return r.status, data, r.headers

    def json(self, method, path, body=None, **kw):
        _, data, _ = self.request(method, path, body, **kw)
        return json.loads(data) if data else None

    def events(self, method, path, body=None, **kw):
        """The NDJSON of a stream, one object at a time, as it comes."""
        c, r = self.open(method, path, body, **kw)
        with contextlib.closing(c):
            if r.status >= 400:
                raise Refused(r.status, r.read(), r.headers)
            for line in r:
                yield json.loads(line)

    # --- nouns ---

    def create(self, **spec):
        sandbox = self.json("POST", "/v1/sandboxes", spec)
        self.created = self.created | {sandbox["id"]}
        return sandbox

    def execute(self, sandbox_id, code, **spec):
        """Its events; a slow one's keepalives are nobody's business."""
        events = self.events("POST", f"/v1/sandboxes/{sandbox_id}/execute", {"code": code, **spec})
        return [e for e in events if e["type"] != "keepalive"]

    def put(self, sandbox_id, path, data):
        return self.json("PUT", f"/v1/sandboxes/{sandbox_id}/files?path=" + urllib.parse.quote(path), data)

    def get(self, sandbox_id, path):
        return self.request("GET", f"/v1/sandboxes/{sandbox_id}/files?path=" + urllib.parse.quote(path))[1]

    def kill(self, sandbox_id):
        self.request("DELETE", f"/v1/sandboxes/{sandbox_id}")


def machine_pid(sandbox_id):
    """The process that is the sandbox's machine: its keeper's child; None when there is none."""
    keeper = subprocess.run(["pgrep", "-f", f"^carrel-keeper {sandbox_id}$"], capture_output=True, text=True).stdout.split()
    child = keeper and subprocess.run(["pgrep", "-P", keeper[0]], capture_output=True, text=True).stdout.split()
    return int(child[0]) if child else None


def text(events, kind="stdout"):
    return "".join(e["text"] for e in events if e["type"] == kind)


def end(events):
    assert events and events[-1]["type"] == "end", f"no end event: {events[-3:]}"
    return events[-1]


def refused(status, code, call, *args, **kw):
    try:
        got = call(*args, **kw)
    except Refused as e:
        assert (e.status, e.error.get("code")) == (status, code), (e, status, code)
        return e
    raise AssertionError(f"{args} was not refused: {got}")


def run(a, s, code, **spec):
    events = a.execute(s, code, **spec)
    assert end(events)["status"] == "ok", events
    return text(events)
