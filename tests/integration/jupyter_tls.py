#!/usr/bin/python3
"""carrel kernel to an appliance that speaks TLS by a certificate of its own: cells, a question, a cut, a name and an authority that do not fit."""
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import TOP, Appliance  # noqa: E402
from connect_proxy import ConnectProxy  # noqa: E402
from notebook import Notebook  # noqa: E402
from tls import certificate  # noqa: E402
from ws_cutter import WsCutter  # noqa: E402

from jupyter_client.manager import KernelManager  # noqa: E402

CARREL = os.path.join(TOP, "build", "carrel")


@contextlib.contextmanager
def notebook(folder, **env):
    n = Notebook(folder, **env)
    try:
        yield n
    finally:
        n.end()


def cells(folder):
    # A proxy of the environment is not for this machine's own addresses.
    with notebook(folder, http_proxy="http://127.0.0.1:1", https_proxy="http://127.0.0.1:1") as n:
        want = "".join(f"{i} {'x' * 1000}\n" for i in range(2000))
        assert n.text("for i in range(2000): print(i, 'x' * 1000)") == want
        assert n.text("print(input())", allow_stdin=True, stdin_hook=lambda m: n.kc.input("typed")) == "typed\n"


def cuts(a, folder):
    cutter = WsCutter(a.port, seed=5, every=(20000, 90000), opaque=True)
    try:
        with notebook(folder, CARREL_URL=f"https://127.0.0.1:{cutter.port}") as n:
            want = "".join(f"{i} {'x' * 1000}\n" for i in range(600))
            assert n.text("import time\nfor i in range(600): print(i, 'x' * 1000, flush=True); time.sleep(0.002)") == want
        assert cutter.cuts > 3, cutter.cuts
    finally:
        cutter.close()


def refused(folder, said, code=3, **env):
    """An appliance that cannot show who it is gets no key and no code; the reason is told."""
    km = KernelManager(kernel_name="carrel-python")
    km.write_connection_file()
    try:
        done = subprocess.run([CARREL, "kernel", "-f", km.connection_file], cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, timeout=60)
    finally:
        km.cleanup_connection_file()
    assert done.returncode == code and said in done.stderr, done


def through_proxy(a, folder):
    """The name is the proxy's to find: nothing here knows it."""
    with ConnectProxy({"carrel.test": ("127.0.0.1", a.port)}) as proxy:
        with notebook(folder, CARREL_URL="https://carrel.test:8443", https_proxy=f"http://user:word@127.0.0.1:{proxy.port}") as n:
            assert n.text("print(6 * 7)") == "42\n"
        assert proxy.asked and proxy.keys == {"user:word"}, (proxy.asked, proxy.keys)


def main():
    d = tempfile.mkdtemp(prefix="carrel-tls-")
    try:
        subprocess.run([CARREL, "kernelspec", "install", "--prefix", d], check=True, stdout=subprocess.DEVNULL)
        os.environ["JUPYTER_PATH"] = os.path.join(d, "share/jupyter")
        os.environ["JUPYTER_RUNTIME_DIR"] = tempfile.mkdtemp(dir=d)
        (cert, key), (other, _) = certificate(d, "one"), certificate(d, "two")
        with Appliance(TLS_CERT=cert, TLS_KEY=key) as a:
            os.environ.update(CARREL_URL=f"https://127.0.0.1:{a.port}", CARREL_TOKEN=a.token, CARREL_CACERT=cert)
            cells(tempfile.mkdtemp(dir=d))
            cuts(a, tempfile.mkdtemp(dir=d))
            through_proxy(a, tempfile.mkdtemp(dir=d))
            refused(d, "certificate", CARREL_CACERT=other)
            refused(d, "proxies of plain HTTP only", 1, CARREL_URL="https://carrel.test", all_proxy="socks5://127.0.0.1:1")
            refused(d, "localhost", CARREL_URL=f"https://localhost:{a.port}")
    finally:
        shutil.rmtree(d)


main()
