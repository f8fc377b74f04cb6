"""GET /v1/sandboxes/{id} under load, beside the least that answers FastCGI: the same nginx
configuration, the same libfcgi, a fixed answer. For tests/bench/run, or alone:

usage: http_load.py [SECONDS]
"""
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from appliance import TOP, Appliance, free_port  # noqa: E402

CLIENTS = 20
CROWD = 200
CROWD_S = 60
PEER_THREADS = 8  # as carreld's share of short requests


def load(url, key, clients, seconds):
    """-> {"rate", "p50", "p99" (ms), "errors"}"""
    out = subprocess.run(["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "--latency", "--timeout", "10s", "-H",
                          "Authorization: Bearer " + key, url], capture_output=True, text=True, check=True).stdout
    unit = {"us": 0.001, "ms": 1, "s": 1000}
    shown = {p: float(n) * unit[u] for p, n, u in re.findall(r"^\s+(50|99)%\s+([\d.]+)(us|ms|s)", out, re.M)}
    errors = sum(map(int, re.findall(r"(?:connect|read|write|timeout) (\d+)", out)))
    errors += sum(map(int, re.findall(r"Non-2xx or 3xx responses: (\d+)", out)))
    return {"rate": float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1)), "p50": shown["50"], "p99": shown["99"],
            "errors": errors}


@contextlib.contextmanager
def peer():
    """The trivial program behind an nginx of its own -> its address."""
    top = tempfile.mkdtemp(prefix="carrel-peer-")
    parts = []
    try:
        program = os.path.join(top, "fcgi_peer")
        subprocess.run(["cc", "-O2", "-pthread", os.path.join(TOP, "tests", "bench", "fcgi_peer.c"), "-o", program, "-lfcgi"],
                       check=True)
        for name in ("run", "nginx", "www"):
            os.mkdir(os.path.join(top, name))
        port, directory = free_port(), os.path.join(top, "nginx")
        subprocess.run([os.path.join(TOP, "conf", "nginx"), directory, os.path.join(top, "run"), str(port), "127.0.0.1",
                        os.path.join(top, "www")], check=True)
        # nginx drops its rights where root starts it, and the socket must stay in reach.
        os.chmod(top, 0o755)
        parts.append(subprocess.Popen([program, os.path.join(top, "run", "fcgi.sock"), str(PEER_THREADS)]))
        parts.append(subprocess.Popen(["nginx", "-e", os.path.join(directory, "error.log"), "-c",
                                       os.path.join(directory, "nginx.conf"), "-p", directory + "/"]))
        url = f"http://127.0.0.1:{port}/v1/sandboxes/sbx-aaaaaaaaaaaaaaaaaaaa"
        deadline = time.monotonic() + 10
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(url, timeout=5).read()
                break
            assert time.monotonic() < deadline, "the peer does not answer"
            time.sleep(0.05)
        yield url
    finally:
        for p in parts:
            p.terminate()
            p.wait()
        shutil.rmtree(top)


def measure(a, sandbox_id, seconds=5):
    """-> lines for the table, as text"""
    if not shutil.which("wrk"):
        return ["# GET /v1/sandboxes/{id} was not measured: there is no wrk (Debian package wrk)"]
    url = f"http://127.0.0.1:{a.port}/v1/sandboxes/{sandbox_id}"
    with peer() as other:
        # In turns, so that a change of the machine's load meets both.
        rounds = [(load(url, a.token, CLIENTS, seconds), load(other, a.token, CLIENTS, seconds)) for _ in range(2)]
        ours = max((r[0] for r in rounds), key=lambda f: f["rate"])
        theirs = max((r[1] for r in rounds), key=lambda f: f["rate"])
        crowd = load(url, a.token, CROWD, CROWD_S)
    lines = [f"{name:58} {f['rate']:9.0f}/s  p50 {f['p50']:.1f} ms  p99 {f['p99']:.1f} ms  errors {f['errors']}"
             for name, f in ((f"GET /v1/sandboxes/{{id}}, {CLIENTS} clients", ours),
                             (f"peer: trivial libfcgi program, {CLIENTS} clients", theirs),
                             (f"GET /v1/sandboxes/{{id}}, {CROWD} clients for {CROWD_S} s", crowd))]
    return lines + [f"# GET /v1/sandboxes/{{id}}: {ours['rate'] / theirs['rate']:.2f} of the trivial program's rate"]


if __name__ == "__main__":
    with Appliance() as appliance:
        print("\n".join(measure(appliance, appliance.create()["id"], int(sys.argv[1]) if len(sys.argv) > 1 else 5)))
