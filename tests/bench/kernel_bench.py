#!/usr/bin/python3
"""The Python kernel beside others on this machine: same client code, one after another.

usage: kernel_bench.py [--rounds N] [--only WORD] [--json FILE]

Kernels: ours, Debian's ipykernel, the newest ipykernel and xpython (of the tests'
environments). The client is bare ZeroMQ, and its requests are written and signed before
the clock starts, so that what it costs itself is small; a line tells how much. Nothing
is asserted here.
"""
import argparse
import hashlib
import hmac
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import clients  # noqa: E402

import kernel_client  # noqa: E402
import zmq  # noqa: E402

KEY = b"key"
PORTS = {"shell_port": 1, "iopub_port": 2, "stdin_port": 3, "hb_port": 4, "control_port": 5}
STARTS = 5
PIPELINED = 2000


class Client:
    """The least that speaks to a kernel: message ids are looked for in frames, no JSON is read."""

    def __init__(self, address):
        self.context = zmq.Context()
        self.shell, self.control = (self.connect(zmq.DEALER, f"{address}-{n}") for n in (1, 5))
        self.iopub = self.connect(zmq.SUB, f"{address}-2")

    def connect(self, kind, address):
        s = self.context.socket(kind)
        s.linger = 0
        s.rcvhwm = 0
        # The kernel is not there yet: its first moment is what is measured.
        s.reconnect_ivl = 2
        if kind == zmq.SUB:
            s.setsockopt(zmq.SUBSCRIBE, b"")
        s.connect("ipc://" + address)
        return s

    @staticmethod
    def request(kind, content):
        """-> (its id, the frames of the wire)"""
        msg_id = uuid.uuid4().hex
        header = json.dumps({"msg_id": msg_id, "session": "s", "username": "u", "date": "2024-01-01T00:00:00Z",
                             "msg_type": kind, "version": "5.3"}).encode()
        parts = [header, b"{}", b"{}", json.dumps(content).encode()]
        digest = hmac.new(KEY, b"".join(parts), hashlib.sha256).hexdigest().encode()
        return msg_id.encode(), [b"<IDS|MSG>", digest] + parts

    def send(self, kind, content, sock=None):
        msg_id, frames = self.request(kind, content)
        (sock or self.shell).send_multipart(frames)
        return msg_id

    def cell(self, code, store=True):
        return self.request("execute_request", {"code": code, "silent": False, "store_history": store,
                                                "user_expressions": {}, "allow_stdin": False, "stop_on_error": False})

    def execute(self, code, store=True):
        msg_id, frames = self.cell(code, store)
        self.shell.send_multipart(frames)
        return msg_id

    def until_idle(self, msg_id, timeout=20000):
        """-> messages seen on the way"""
        n = 0
        while True:
            assert self.iopub.poll(timeout), "the kernel lost the end of a cell"
            frames = self.iopub.recv_multipart()
            n += 1
            if msg_id in frames[-3] and b'"idle"' in frames[-1]:
                return n

    def drain(self):
        while self.iopub.poll(100):
            self.iopub.recv_multipart()

    def reply(self, sock=None):
        return (sock or self.shell).recv_multipart()

    def close(self):
        self.context.destroy(linger=0)


class Kernel:
    def __init__(self, argv, env):
        # xpython binds no socket whose path has more than some twenty characters.
        self.folder = tempfile.mkdtemp(prefix="cb", dir="/tmp")
        file = os.path.join(self.folder, "c.json")
        with open(file, "w", encoding="utf-8") as f:
            json.dump({"transport": "ipc", "ip": self.folder + "/k", "key": KEY.decode(),
                       "signature_scheme": "hmac-sha256", **PORTS}, f)
        self.began = time.monotonic()
        self.process = subprocess.Popen([file if a == "FILE" else a for a in argv],
                                        # They end with this process, however it ends.
                                        env=dict(env, JPY_PARENT_PID=str(os.getpid())), cwd=self.folder,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        self.client = Client(self.folder + "/k")

    def rss_mb(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return int(next(line for line in f if line.startswith("VmRSS")).split()[1]) / 1024

    def close(self):
        self.client.close()
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def started(argv, env):
    """-> (kernel, ms to the first kernel_info_reply, ms to the first result of 1+1)"""
    k = Kernel(argv, env)
    k.client.send("kernel_info_request", {})
    assert k.client.shell.poll(60000), "the kernel does not answer"
    k.client.reply()
    info = time.monotonic() - k.began
    k.client.execute("1+1")
    k.client.reply()
    first = time.monotonic() - k.began
    # From here on output is seen: the subscription may come after the first reply.
    while True:
        k.client.send("kernel_info_request", {})
        k.client.reply()
        if k.client.iopub.poll(100):
            break
    k.client.drain()
    return k, info * 1000, first * 1000


def forked(binary, env):
    """The same for a kernel that the prepared parent forks, as in a sandbox."""
    folder = kernel_client.user_folder()
    parent = kernel_client.Parent([binary, "--parent"], folder, dict(env, HOME=folder))
    took = []
    try:
        for i in range(STARTS):
            began = time.monotonic()
            answer, address, crash = parent.fork_raw(f"k{i}", key=KEY.decode())
            assert answer["op"] == "forked", answer
            c = Client(address)
            c.send("kernel_info_request", {})
            c.reply()
            info = time.monotonic() - began
            c.execute("1+1")
            c.reply()
            took.append((info * 1000, (time.monotonic() - began) * 1000))
            c.close()
            os.close(crash)
    finally:
        parent.close()
        kernel_client.remove(folder)
    return [statistics.median(t[i] for t in took) for i in (0, 1)]


def timed(client, code, rounds, store=True):
    took = []
    for _ in range(rounds):
        msg_id, frames = client.cell(code, store)
        began = time.perf_counter()
        client.shell.send_multipart(frames)
        client.until_idle(msg_id)
        client.reply()
        took.append((time.perf_counter() - began) * 1000)
    took.sort()
    return statistics.median(took), took[min(len(took) - 1, int(len(took) * 0.99))]


def pipelined(client):
    """All are written and signed before the clock starts: it is the kernel's rate, not Python's at making JSON."""
    cells = [client.cell("pass") for _ in range(PIPELINED)]
    began = time.perf_counter()
    for _, frames in cells:
        client.shell.send_multipart(frames)
    client.until_idle(cells[-1][0])
    took = time.perf_counter() - began
    for _ in range(PIPELINED):
        client.reply()
    return PIPELINED / took


def prints(client):
    """-> (ms, messages) of 10,000 prints"""
    began = time.perf_counter()
    n = client.until_idle(client.execute("for i in range(10000): print(i)"))
    client.reply()
    return (time.perf_counter() - began) * 1000, n - 3


def interrupt(kernel, by_message):
    client = kernel.client
    msg_id = client.execute("import time; time.sleep(20)")
    time.sleep(0.3)
    began = time.perf_counter()
    if by_message:
        client.send("interrupt_request", {}, client.control)
    else:
        os.kill(kernel.process.pid, signal.SIGINT)
    client.until_idle(msg_id)
    took = (time.perf_counter() - began) * 1000
    client.reply()
    return took


STEPS = (  # labels, and what gives their values
    (("`pass` to idle p50 ms", "`pass` to idle p99 ms"), lambda k, rounds, _: timed(k.client, "pass", rounds)),
    (("`1+1` to idle p50 ms", "`1+1` to idle p99 ms"), lambda k, rounds, _: timed(k.client, "1+1", rounds)),
    (("`pass`, no history, p50 ms",), lambda k, rounds, _: timed(k.client, "pass", rounds // 2, False)[:1]),
    (("pipelined executes a second",), lambda k, *_: (pipelined(k.client),)),
    (("10,000 prints ms", "10,000 prints messages"), lambda k, *_: prints(k.client)),
    (("interrupt of time.sleep ms",), lambda k, _, by_message: (statistics.median([interrupt(k, by_message) for _ in range(5)]),)),
    (("resident MB afterwards",), lambda k, *_: (k.rss_mb(),)),
)


def measure(argv, env, rounds, by_message):
    """-> {label: value}; NaN where the kernel lost an end that it owed."""
    kernel, info, first = started(argv, env)
    starts, figures = [(info, first)], {}
    timed(kernel.client, "pass", 50)
    for labels, step in STEPS:
        try:
            values = step(kernel, rounds, by_message)
        except AssertionError as e:
            print(f"# {labels[0]}: {e}", flush=True)
            values = [math.nan] * len(labels)
            kernel.close()
            kernel = started(argv, env)[0]
        figures.update(zip(labels, values))
    kernel.close()
    for _ in range(STARTS - 1):
        kernel, info, first = started(argv, env)
        starts.append((info, first))
        kernel.close()
    return {"start to kernel_info_reply ms": statistics.median(s[0] for s in starts),
            "start to result of 1+1 ms": statistics.median(s[1] for s in starts), **figures}


def client_share(rounds):
    """What a message and its answer cost when the other end is a plain echo thread's socket."""
    import threading

    context = zmq.Context()
    back = context.socket(zmq.ROUTER)
    back.bind("inproc://echo")

    def echo():
        for _ in range(rounds):
            frames = back.recv_multipart()
            for _ in range(4):
                back.send_multipart(frames)

    thread = threading.Thread(target=echo)
    thread.start()
    c = Client.__new__(Client)
    c.context = context
    c.shell = context.socket(zmq.DEALER)
    c.shell.connect("inproc://echo")
    took = []
    for _ in range(rounds):
        _, frames = c.cell("pass")
        began = time.perf_counter()
        c.shell.send_multipart(frames)
        for _ in range(4):
            c.shell.recv_multipart()
        took.append((time.perf_counter() - began) * 1000)
    thread.join()
    context.destroy(linger=0)
    return statistics.median(took)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--only", help="a word of the kernels' names")
    parser.add_argument("--json")
    args = parser.parse_args()
    home = tempfile.mkdtemp(prefix="carrel-bench-home-")
    env = clients.environment(home, ())
    kernels = {"carrel": ([clients.native_kernel(), "-f", "FILE"], True)}
    for name, python in (("ipykernel (Debian)", clients.DEBIAN), ("ipykernel (newest)", clients.newest())):
        kernels[name] = ([python, "-m", "ipykernel_launcher", "-f", "FILE"], False)
    kernels["xpython"] = ([clients.newest("xpython"), "-m", "xpython_launcher", "-f", "FILE"], False)
    table = {}
    try:
        for name, (argv, by_message) in kernels.items():
            if args.only and args.only not in name:
                continue
            try:
                table[name] = measure(argv, env, args.rounds, by_message)
                if by_message:
                    info, first = forked(argv[0], env)
                    print(f"# {name}, forked by the prepared parent: {info:.1f} ms to kernel_info_reply, "
                          f"{first:.1f} ms to the result of 1+1")
            except AssertionError as e:
                print(f"# {name}: {e}")
    finally:
        shutil.rmtree(home, ignore_errors=True)
    print(f"# {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, {args.rounds} rounds; "
          f"the client's own share of a cell: {client_share(300):.2f} ms")
    print(f"{'figure':32}" + "".join(f"{name:>20}" for name in table))
    for figure in next(iter(table.values())):
        print(f"{figure:32}" + "".join(f"{table[name][figure]:20.2f}" for name in table))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(table, f, indent=1)


if __name__ == "__main__":
    main()
