"""Stands between carreld and a sandbox's agent socket and cuts the link.

The sandbox's agent.sock is renamed, a listener takes its name and forwards to
it; cut() drops the connection in the middle of whatever is under way, so that
bytes in flight are lost in both directions, as on a torn virtio port.
"""
import os
import random
import select
import socket
import threading


class Cutter:
    def __init__(self, path):
        self.path, self.real = path, path + ".real"
        owner = os.stat(path)
        os.rename(path, self.real)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        os.chown(path, owner.st_uid, owner.st_gid)
        os.chmod(path, 0o666)
        self.listener.listen()
        self.wake_r, self.wake_w = os.pipe()
        self.cuts = self.connections = 0
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            ready, _, _ = select.select([self.listener, self.wake_r], [], [])
            if self.wake_r in ready:
                if os.read(self.wake_r, 1) == b"q":
                    return
                continue  # a cut with nobody connected
            client, _ = self.listener.accept()
            self.connections += 1
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.real)
            if not self.forward(client, server):
                return

    def forward(self, a, b):
        """Until a side ends or a cut; false to stop for good."""
        with a, b:
            while True:
                ready, _, _ = select.select([a, b, self.wake_r], [], [])
                if self.wake_r in ready:
                    order = os.read(self.wake_r, 1)
                    self.cuts += 1
                    return order != b"q"
                for s in ready:
                    data = s.recv(random.choice((1, 100, 4096, 65536)))
                    if not data:
                        return True
                    (b if s is a else a).sendall(data)

    def cut(self):
        os.write(self.wake_w, b"c")

    def close(self):
        os.write(self.wake_w, b"q")
        self.thread.join()
        self.listener.close()
        os.rename(self.real, self.path)
        os.close(self.wake_r)
        os.close(self.wake_w)
