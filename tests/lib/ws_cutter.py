"""A TCP proxy in front of an appliance that cuts WebSockets in the middle of a byte stream.

Plain HTTP passes untouched; a connection that asks for an upgrade is dropped,
in both directions, when cut() says so or after a random number of bytes. What
is encrypted cannot be told apart: there every connection is taken for one.
"""
import random
import select
import socket
import threading


class WsCutter:
    def __init__(self, port, seed=None, every=None, opaque=False):
        """every: (least, most) bytes to a client before a cut; None: only cut(). opaque: it is encrypted."""
        self.port_behind, self.every, self.opaque, self.random = port, every, opaque, random.Random(seed)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.cuts = self.sockets = 0
        self.refusing = False
        self.live = set()
        self.lock = threading.Lock()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.forward, args=(client,), daemon=True).start()

    def forward(self, client):
        with client, socket.create_connection(("127.0.0.1", self.port_behind)) as server:
            left, upgraded, first = None, False, True
            while True:
                ready, _, _ = select.select([client, server], [], [], 0.05)
                if upgraded and client not in self.live:
                    return
                for s in ready:
                    data = s.recv(65536)
                    if not data:
                        return
                    if first:
                        first, upgraded = False, self.opaque or b"upgrade: websocket" in data[:4096].lower()
                        if upgraded:
                            if self.refusing:
                                return
                            with self.lock:
                                self.live.add(client)
                                self.sockets += 1
                            left = self.every and self.random.randint(*self.every)
                    if upgraded and s is server and left is not None:
                        if len(data) > left:
                            client.sendall(data[:left])
                            self.cuts += 1
                            self.live.discard(client)
                            return
                        left -= len(data)
                    (server if s is client else client).sendall(data)

    def cut(self):
        with self.lock:
            self.cuts += len(self.live)
            self.live.clear()

    def close(self):
        self.listener.close()
        self.cut()
