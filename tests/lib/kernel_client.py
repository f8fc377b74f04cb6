"""A prepared parent and a client of the kernels it forks, as the agent is one.

Needs pyzmq. Every message's signature is checked, and every message's JSON.
"""
import array
import base64
import hashlib
import hmac
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid

import zmq

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
USER = 1000
PORTS = {"shell_port": 1, "iopub_port": 2, "stdin_port": 3, "hb_port": 4, "control_port": 5}


def strict_json(data):
    def refuse(name):
        raise ValueError(f"{name} is no JSON")

    text = data.decode("utf-8")
    text.encode("utf-8")
    return json.loads(text, parse_constant=refuse)


class Message:
    def __init__(self, frames, key):
        at = frames.index(b"<IDS|MSG>")
        parts = frames[at + 2 : at + 6]
        want = hmac.new(key, b"".join(parts), hashlib.sha256).hexdigest().encode() if key else b""
        assert frames[at + 1] == want, "the signature is wrong"
        self.header, self.parent, self.metadata, self.content = map(strict_json, parts)
        self.type = self.header["msg_type"]
        self.size = len(parts[3])
        self.buffers = frames[at + 6 :]


class Client:
    """One client of one kernel."""

    def __init__(self, address, key, timeout=20):
        self.key = key
        self.timeout = timeout
        self.context = zmq.Context()
        self.shell, self.control, self.stdin = (self._connect(zmq.DEALER, address, n) for n in (1, 5, 3))
        self.iopub = self._connect(zmq.SUB, address, 2)
        while self.receive(self.iopub).type != "iopub_welcome":
            pass

    def _connect(self, kind, address, port):
        s = self.context.socket(kind)
        s.linger = 0
        if kind == zmq.DEALER:
            s.identity = b"client"
        else:
            s.setsockopt(zmq.SUBSCRIBE, b"")
        s.connect(f"ipc://{address}-{port}")
        return s

    def close(self):
        self.context.destroy(linger=0)

    def send(self, sock, kind, content, key=None, subshell=None, metadata=None, buffers=()):
        """content: a value, or bytes to be sent as they are."""
        msg_id = uuid.uuid4().hex
        header = {"msg_id": msg_id, "session": "s", "username": "u", "date": "2024-01-01T00:00:00Z",
                  "msg_type": kind, "version": "5.3", "extra": {"kept": 1}}
        if subshell:
            header["subshell_id"] = subshell
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        parts = [json.dumps(header).encode(), b"{}", json.dumps(metadata or {}).encode(), body]
        digest = hmac.new(self.key if key is None else key, b"".join(parts), hashlib.sha256).hexdigest().encode()
        sock.send_multipart([b"<IDS|MSG>", digest] + parts + list(buffers))
        return msg_id

    def receive(self, sock, timeout=None):
        assert sock.poll((timeout or self.timeout) * 1000), "no message in time"
        return Message(sock.recv_multipart(), self.key)

    def ask(self, kind, content, sock=None, subshell=None):
        """The content of the reply to a request, its iopub messages read away."""
        sock = sock or self.shell
        msg_id = self.send(sock, kind, content, subshell=subshell)
        self.outputs(msg_id)
        reply = self.receive(sock)
        assert reply.parent["msg_id"] == msg_id
        return reply.content

    def outputs(self, msg_id):
        """Messages of a request after busy and before idle."""
        found, busy = [], False
        while True:
            m = self.receive(self.iopub)
            if m.parent.get("msg_id") != msg_id:
                continue
            assert m.parent["extra"] == {"kept": 1}, "the parent header is not the request's"
            if m.type != "status":
                assert busy, f"{m.type} before busy"
                found.append(m)
            elif m.content["execution_state"] == "idle":
                return found
            else:
                busy = True

    def finish(self, msg_id):
        outputs = self.outputs(msg_id)
        reply = self.receive(self.shell)
        assert reply.type == "execute_reply" and reply.parent["msg_id"] == msg_id
        assert isinstance(reply.content["execution_count"], int)
        return Result(reply.content, outputs)

    def finish_all(self, msg_ids):
        """The same for several that run side by side."""
        replies, outputs, idle = {}, {i: [] for i in msg_ids}, set()
        while len(replies) < len(msg_ids):
            m = self.receive(self.shell)
            if m.parent["msg_id"] in outputs:
                replies[m.parent["msg_id"]] = m.content
        while len(idle) < len(msg_ids):
            m = self.receive(self.iopub)
            if m.parent.get("msg_id") not in outputs:
                continue
            if m.type != "status":
                outputs[m.parent["msg_id"]].append(m)
            elif m.content["execution_state"] == "idle":
                idle.add(m.parent["msg_id"])
        return [Result(replies[i], outputs[i]) for i in msg_ids]

    def start(self, code, subshell=None, **options):
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False,
                   "stop_on_error": True, "user_expressions": {}, **options}
        return self.send(self.shell, "execute_request", content, subshell=subshell)

    def run(self, code, **options):
        return self.finish(self.start(code, **options))

    def interrupt(self):
        self.send(self.control, "interrupt_request", {})
        assert self.receive(self.control).content == {"status": "ok"}


class Result:
    def __init__(self, reply, outputs):
        self.reply = reply
        self.status = reply["status"]
        self.ename = reply.get("ename")
        self.outputs = outputs
        self.types = [m.type for m in outputs if m.type != "execute_input"]

    def text(self, stream=None):
        return "".join(m.content["text"] for m in self.outputs
                       if m.type == "stream" and stream in (None, m.content["name"]))

    def streams(self):
        return [m for m in self.outputs if m.type == "stream"]

    def runs(self):
        """[[stream, text]]: however a text was divided into messages."""
        runs = []
        for m in self.streams():
            if runs and runs[-1][0] == m.content["name"]:
                runs[-1][1] += m.content["text"]
            else:
                runs.append([m.content["name"], m.content["text"]])
        return runs

    def data(self):
        return [m.content["data"] for m in self.outputs if "data" in m.content]


class Parent:
    """The prepared parent. argv: how it is started; folder: where it finds sockets."""

    def __init__(self, argv, folder, env=None):
        self.folder = folder
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket = ours
        self.clients = []
        self.process = subprocess.Popen(argv, env=env, close_fds=False,
                                        preexec_fn=lambda: (os.close(ours.fileno()), os.dup2(theirs.fileno(), 3)))
        theirs.close()
        self.socket.settimeout(180)
        assert self.receive() == {"op": "ready"}

    def receive(self):
        packet = self.socket.recv(1 << 17)
        assert packet, "the parent closed its socket"
        return json.loads(packet)

    def exited(self, pid):
        """Wait for a kernel's end; in a root of its own the parent tells of orphans, too."""
        while (packet := self.receive()).get("pid") != pid:
            assert packet["op"] == "exited", packet
        assert packet["op"] == "exited", packet
        return packet

    def operate(self, packet, fds=()):
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([json.dumps(packet).encode()], rights)
        while (answer := self.receive())["op"] == "exited" and answer["pid"] not in [c.pid for c in self.clients]:
            pass
        return answer

    def identity(self, env=None):
        entropy = base64.b64encode(os.urandom(64)).decode()
        return self.operate({"op": "identity", "entropy": entropy, "env": env or {}})

    def fork_raw(self, name, cwd="/tmp", env=None, key="key"):
        """-> (answer, address, read end of its standard error)"""
        folder = tempfile.mkdtemp(prefix="kernel-", dir=self.folder)
        os.chmod(folder, 0o777)
        connection = {"transport": "ipc", "ip": folder + "/k", "key": key, "signature_scheme": "hmac-sha256", **PORTS}
        crash, write = os.pipe()
        cgroup = os.open("/dev/null", os.O_WRONLY)
        answer = self.operate({"op": "fork", "id": name, "connection": connection, "cwd": cwd, "env": env or {}},
                              [write, cgroup])
        os.close(write)
        os.close(cgroup)
        return answer, folder + "/k", crash

    def fork(self, name="k", **options):
        answer, address, crash = self.fork_raw(name, **options)
        assert answer["op"] == "forked" and answer["id"] == name, answer
        client = Client(address, options.get("key", "key").encode())
        client.pid, client.crash = answer["pid"], crash
        self.clients.append(client)
        return client

    def close(self):
        for c in self.clients:
            c.close()
            os.close(c.crash)
        self.socket.close()
        self.process.wait(20)


def user_folder():
    """A temporary folder that kernels may use."""
    folder = tempfile.mkdtemp(prefix="carrel-kernels-")
    os.chmod(folder, 0o777)
    if os.getuid() == 0:
        os.chown(folder, USER, USER)
    return folder


def remove(folder):
    shutil.rmtree(folder, ignore_errors=True)


def elapsed(began):
    return time.monotonic() - began
