#!/usr/bin/python3
"""What a neighbour's warm `1+1` takes while as many hostile sandboxes as there are cores run beside it.

usage: ENGINE=tcg tests/bench/neighbour.py [--rounds N]

Prints p50 and p99 quiet and beside each kind of hostile code, and their ratios; the goal is 2x at p50 and 5x at p99.
Asserts nothing but that every cell ends well.
"""
import argparse
import http.client
import json
import os
import platform
import statistics
import sys
import threading
import time

from figures import percentile, timed
from appliance import Appliance

GOAL_P50, GOAL_P99 = 2, 5
SETTLE_S = 3  # until hostile code is at what it does
HOSTILE = {
    "busy loop": "while True: pass",
    "fork bomb": "import os, time\nwhile True:\n    try: os.fork()\n    except OSError: time.sleep(0.01)",
    "memory churn": "x = []\nwhile True:\n    x = [bytearray(b'1') * (1 << 22) for _ in range(20)]",
    "output flood": "while True: print('x' * 1000)",
    "disk churn": "import os\nwhile True:\n    with open('churn', 'wb') as f:\n        for _ in range(64): f.write(b'x' * (1 << 20))\n        os.fsync(f.fileno())",
}


class Neighbour:
    def __init__(self, a):
        self.a, self.id = a, a.create(timeout_s=3600)["id"]

    def cells(self, rounds):
        """Seconds of each, by one client that keeps its connection."""
        client, took = http.client.HTTPConnection("127.0.0.1", self.a.port), []
        for _ in range(rounds + 1):
            seconds, last = timed(self.cell, client)
            if last["status"] != "ok":
                sys.exit(f"tests/bench/neighbour.py: a cell of 1+1 ended {last}")
            took.append(seconds)
        client.close()
        return took[1:]

    def cell(self, client):
        client.request("POST", f"/v1/sandboxes/{self.id}/execute", b'{"code":"1+1"}', {"Authorization": "Bearer " + self.a.token})
        return json.loads(client.getresponse().read().splitlines()[-1])


def beside(a, neighbour, code, rounds):
    ids = [a.create(timeout_s=3600)["id"] for _ in range(os.cpu_count())]
    for i in ids:
        a.execute(i, "1")  # their kernels are up: in the jail that takes longer than what follows
    threads = [threading.Thread(target=a.execute, args=(i, code)) for i in ids]
    for t in threads:
        t.start()
    time.sleep(SETTLE_S)
    took = neighbour.cells(rounds)
    slowest = max(timed(a.request, "GET", "/healthz")[0] for _ in range(10))
    for i in ids:
        a.kill(i)
    for t in threads:
        t.join()
    return took, slowest


def line(what, took, quiet, health):
    p50, p99 = statistics.median(took), percentile(took, 99)
    r50, r99 = p50 / statistics.median(quiet), p99 / percentile(quiet, 99)
    met = "" if took is quiet else "met" if r50 <= GOAL_P50 and r99 <= GOAL_P99 else "not met"
    print(f"{what:16} {len(took):4} {p50 * 1000:9.1f} {p99 * 1000:9.1f} {r50:7.2f} {r99:7.2f} {health * 1000:9.1f}  {met}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    engine = os.environ.get("ENGINE") or "tcg"
    with Appliance(ENGINE=engine) as a:
        neighbour = Neighbour(a)
        neighbour.cells(rounds // 4)
        print(f"# engine {engine}, {os.cpu_count()} cores and hostile sandboxes, Linux {platform.release()}, load {os.getloadavg()[0]:.1f}; "
              f"goal: p50 {GOAL_P50}x, p99 {GOAL_P99}x")
        print(f"{'beside':16} {'n':>4} {'p50 ms':>9} {'p99 ms':>9} {'p50 x':>7} {'p99 x':>7} {'healthz':>9}")
        quiet = neighbour.cells(rounds)
        line("nothing", quiet, quiet, timed(a.request, "GET", "/healthz")[0])
        for what, code in HOSTILE.items():
            took, slowest = beside(a, neighbour, code, rounds)
            line(what, took, quiet, slowest)


if __name__ == "__main__":
    main()
