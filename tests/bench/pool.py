"""From the pool and past it: claim, bursts, throughput."""
import os
import threading
import time

from appliance import Appliance, Refused
from figures import create_to_output, row

AT_ONCE = 50
THROUGHPUT_S = 30


def pool_ready(a):
    """Waits until the pool is full and quiet."""
    while True:
        p = a.json("GET", "/v1/stats")["pool"]
        if p["ready"] >= p["size"] and not p["filling"]:
            return p
        time.sleep(0.05)


def from_pool(a, code):
    pool_ready(a)
    return create_to_output(a, code)


def at_once(a):
    """AT_ONCE creates: -> (seconds to 201 of those that got one, of how many the pool gave, refusals)."""
    took, refused, pooled, ids, lock = [], [], [], [], threading.Lock()

    def one():
        began = time.monotonic()
        try:
            s = a.create()
        except Refused as e:
            with lock:
                refused.append(e.status)
            return
        with lock:
            took.append(time.monotonic() - began)
            pooled.append(s["started"] == "pool")
            ids.append(s["id"])

    threads = [threading.Thread(target=one) for _ in range(AT_ONCE)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i in ids:
        a.kill(i)
    return took, sum(pooled), len(refused)


def throughput(a):
    """Sandboxes that are made, run print(1) and are killed, a minute and core: by as many clients as there are cores."""
    until, done, lock = time.monotonic() + THROUGHPUT_S, [], threading.Lock()

    def client():
        while time.monotonic() < until:
            create_to_output(a, "print(1)")
            with lock:
                done.append(1)

    threads = [threading.Thread(target=client) for _ in range(os.cpu_count())]
    began = time.monotonic()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return len(done) * 60 / (time.monotonic() - began) / os.cpu_count()


def measure(runs, rows, notes):
    with Appliance(POOL=2) as a:
        pairs = [from_pool(a, "print(1)") for _ in range(runs)]
        rows.append(row("from the pool: create to 201", [p[0] for p in pairs]))
        rows.append(row("from the pool: create to first stdout of print(1)", [p[1] for p in pairs]))
        rows.append(row("from the pool: create to result of import numpy",
                        [from_pool(a, "import numpy; print(numpy.arange(3).sum())")[1] for _ in range(runs // 2)]))
        pool_ready(a)
        took, pooled, refused = at_once(a)
        rows.append(row(f"{AT_ONCE} creates at once, pool of 2: to 201", took))
        notes.append(f"# of {AT_ONCE} creates at once {len(took)} were made ({pooled} from the pool), {refused} refused")
        pool_ready(a)
        notes.append(f"# {throughput(a):.0f} sandboxes a minute and core: created, print(1), killed; pool of 2")
