"""A kernel's WebSocket from the client's side, by the standard library alone.

    ws = Channels(appliance, kernel_id)
    id = ws.ask("execute_request", {"code": "1+1"})
    reply, outputs = ws.answer(id)
"""
import base64
import json
import os
import socket
import struct
import urllib.parse
import uuid

V1 = "v1.kernel.websocket.jupyter.org"


class Closed(Exception):
    pass


class Channels:
    def __init__(self, appliance, kernel_id, session=None, received=None, subprotocol=V1, timeout=60, token=None,
                 header=False):
        self.session = session or uuid.uuid4().hex
        self.v1 = subprotocol == V1
        self.got = 0  # messages of the session, "carrel" ones apart
        self.hello = None
        query = {"session_id": self.session}
        if not header:
            query["token"] = token or appliance.token
        if received is not None:
            query["carrel_received"] = received
        self.socket = socket.create_connection(("127.0.0.1", appliance.port), timeout)
        lines = [f"GET /jupyter/api/kernels/{kernel_id}/channels?{urllib.parse.urlencode(query)} HTTP/1.1",
                 f"Host: 127.0.0.1:{appliance.port}", "Upgrade: websocket", "Connection: Upgrade",
                 "Sec-WebSocket-Key: " + base64.b64encode(os.urandom(16)).decode(), "Sec-WebSocket-Version: 13"]
        if header:
            lines.append("Authorization: token " + (token or appliance.token))
        if subprotocol:
            lines.append("Sec-WebSocket-Protocol: " + subprotocol)
        self.socket.sendall("\r\n".join(lines + ["", ""]).encode())
        self.file = self.socket.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers = {}
        for line in self.file:
            if line == b"\r\n":
                break
            key, value = line.decode().split(":", 1)
            self.headers[key.lower()] = value.strip()
        if self.status != 101:
            self.close()
            raise Closed(self.status)

    def close(self):
        self.file.close()
        self.socket.close()

    def goodbye(self):
        """Closes for good: the session is forgotten."""
        self.write(struct.pack(">H", 1000), 8)
        self.close()

    # --- frames ---

    def write(self, data, opcode=2, fin=True):
        head = bytes([opcode | (0x80 if fin else 0)])
        n = len(data)
        head += bytes([0x80 | n]) if n < 126 else (bytes([0x80 | 126]) + struct.pack(">H", n) if n < 65536
                                                   else bytes([0x80 | 127]) + struct.pack(">Q", n))
        self.socket.sendall(head + bytes(4) + data)  # a mask of zeros is one, too

    def read(self):
        """One message: (opcode, bytes). Pings are answered."""
        whole, kind = b"", None
        while True:
            head = self.file.read(2)
            if len(head) < 2:
                raise Closed("cut")
            n = head[1] & 127
            if n >= 126:
                n = struct.unpack(">H" if n == 126 else ">Q", self.file.read(2 if n == 126 else 8))[0]
            data = self.file.read(n)
            opcode = head[0] & 15
            if opcode == 9:
                self.write(data, 10)
            elif opcode == 8:
                raise Closed(struct.unpack(">H", data[:2])[0] if data else 1005)
            elif opcode in (0, 1, 2):
                whole, kind = whole + data, kind or opcode
                if head[0] & 0x80:
                    return kind, whole

    # --- messages ---

    def header(self, msg_type, msg_id=None):
        return {"msg_id": msg_id or uuid.uuid4().hex, "session": self.session, "username": "test",
                "date": "2026-01-01T00:00:00Z", "msg_type": msg_type, "version": "5.3"}

    def send(self, channel, header, content, metadata=None, parent=None):
        parts = [channel.encode()] + [json.dumps(x).encode() for x in (header, parent or {}, metadata or {}, content)]
        if not self.v1:
            self.write(json.dumps({"channel": channel, "header": header, "parent_header": parent or {},
                                   "metadata": metadata or {}, "content": content, "buffers": []}).encode(), 1)
            return
        at, offsets = 8 * (2 + len(parts)), []
        for part in parts:
            offsets.append(at)
            at += len(part)
        offsets.append(at)
        self.write(struct.pack(f"<{1 + len(offsets)}Q", len(offsets), *offsets) + b"".join(parts))

    def receive(self):
        opcode, data = self.read()
        if opcode == 1:
            m = json.loads(data)
        else:
            n = struct.unpack_from("<Q", data)[0]
            at = struct.unpack_from(f"<{n}Q", data, 8)
            assert at[-1] == len(data), (at, len(data))
            parts = [data[a:b] for a, b in zip(at, at[1:])]
            m = {"channel": parts[0].decode(), "header": json.loads(parts[1]), "parent_header": json.loads(parts[2]),
                 "metadata": json.loads(parts[3]), "content": json.loads(parts[4]), "buffers": parts[5:]}
        if m["channel"] == "carrel":
            if m["header"]["msg_type"] == "carrel_hello":
                self.hello = m["content"]
            return self.receive()
        self.got += 1
        return m

    def acknowledge(self, received):
        self.send("carrel", {"msg_type": "carrel_ack"}, {"received": received})

    def ask(self, msg_type, content, channel="shell", msg_id=None):
        header = self.header(msg_type, msg_id)
        self.send(channel, header, content)
        return header["msg_id"]

    def execute(self, code, **more):
        return self.ask("execute_request", {"code": code, "silent": False, "store_history": True,
                                            "user_expressions": {}, "allow_stdin": True, "stop_on_error": True, **more})

    def answer(self, msg_id, seen=None):
        """-> (reply, everything else with that parent), once reply and idle are there."""
        reply, idle, others = None, False, []
        while not (reply and idle):
            m = self.receive()
            if seen is not None:
                seen.append(m)
            if m["parent_header"].get("msg_id") != msg_id:
                continue
            if m["header"]["msg_type"].endswith("_reply") and m["channel"] in ("shell", "control"):
                reply = m
            else:
                others.append(m)
                idle |= m["content"].get("execution_state") == "idle"
        return reply, others


def text(messages, name="stdout"):
    return "".join(m["content"]["text"] for m in messages
                   if m["header"]["msg_type"] == "stream" and m["content"]["name"] == name)


def types(messages):
    return [m["header"]["msg_type"] + (":" + m["content"]["execution_state"] if m["header"]["msg_type"] == "status" else "")
            for m in messages]
