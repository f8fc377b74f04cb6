#!/usr/bin/python3
"""The page in Debian's Chromium against a whole appliance: tests/clients/page.mjs
says what. Here: the appliance, and a server that hostile outputs try to reach
and that must see no connection."""
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import TOP, Appliance, skip  # noqa: E402

CLIENTS = os.path.join(TOP, "tests", "clients")
LOCK, INSTALLED = "package-lock.json", os.path.join("node_modules", ".carrel-lock")


def read(*path):
    with contextlib.suppress(OSError), open(os.path.join(*path), "rb") as f:
        return f.read()
    return None


def prepare():
    """-> the browser's program; what is missing is a reason to skip."""
    node = subprocess.run("node --version", shell=True, capture_output=True, text=True)
    if node.returncode or int(node.stdout.strip().lstrip("v").split(".")[0]) < 18 or not shutil.which("npm"):
        skip("node 18 or newer and npm are not installed: conf/packages/install node")
    chromium = shutil.which("chromium")
    if not chromium:
        skip("chromium is not installed: conf/packages/install test")
    if not os.path.exists(os.path.join(TOP, "build", "www", "carrel.js")):
        skip("the page is not built; make page says why")
    if read(CLIENTS, LOCK) != read(CLIENTS, INSTALLED):
        got = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
                             cwd=CLIENTS, capture_output=True, text=True)
        if got.returncode:
            skip("npm could not fetch tests/clients: " + (got.stderr.strip().splitlines() or ["no message"])[-1])
        shutil.copy(os.path.join(CLIENTS, LOCK), os.path.join(CLIENTS, INSTALLED))
    return chromium


@contextlib.contextmanager
def evil_server():
    """A listener that hangs up on whoever comes; gives its port and a list of who came."""
    came = []

    def accept():
        with contextlib.suppress(OSError):
            while True:
                connection, address = listener.accept()
                came.append(address)
                connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listener.getsockname()[1], came
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def main():
    chromium = prepare()
    with evil_server() as (port, came), Appliance() as a:
        env = dict(os.environ, CARREL_URL=f"http://127.0.0.1:{a.port}", CARREL_TOKEN=a.token, CHROMIUM=chromium,
                   EVIL_URL=f"http://127.0.0.1:{port}")
        subprocess.run(["node", "page.mjs"], cwd=CLIENTS, env=env, check=True)
        assert not came, f"an output reached another server {len(came)} times"


if __name__ == "__main__":
    main()
