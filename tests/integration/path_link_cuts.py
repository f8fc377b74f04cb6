#!/usr/bin/python3
"""The link is cut at 200 random points of a cell that prints numbered lines for
a minute: every line is there once, in order, or a gap is reported."""
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import Appliance, end, text  # noqa: E402
from cutter import Cutter  # noqa: E402

CUTS, SECONDS, LINES = 200, 60, 3000
CODE = f"import time\nfor i in range({LINES}):\n    print(i, 'z' * 50)\n    time.sleep({SECONDS / LINES})"


def reconnect_through(a, cutter):
    """carreld finds the cutter in the socket's place when it starts anew."""
    a.carreld_kill()
    limit = time.monotonic() + 30
    while not cutter.connections:
        assert time.monotonic() < limit, "carreld did not come back to its sandbox"
        time.sleep(0.05)


def main():
    seed = int(os.environ.get("SEED", random.randrange(1 << 30)))
    print("SEED", seed)
    chance = random.Random(seed)
    with Appliance() as a:
        s = a.create(timeout_s=600)
        cutter = Cutter(os.path.join(a.state, "run", s["id"], "agent.sock"))
        reconnect_through(a, cutter)
        events = []

        def client():
            try:
                events.extend(a.events("POST", f"/v1/sandboxes/{s['id']}/execute", {"code": CODE}))
            except Exception as e:  # shown by the missing end below
                print("client:", e)

        while True:  # carreld may need a moment to serve again
            try:
                a.execute(s["id"], "1")
                break
            except Exception as e:
                print("not yet:", e)
                time.sleep(0.2)
        thread = threading.Thread(target=client)
        thread.start()
        points = sorted(chance.uniform(0.5, SECONDS * 0.95) for _ in range(CUTS))
        began = time.monotonic()
        for point in points:
            time.sleep(max(0.0, began + point - time.monotonic()))
            cutter.cut()
        thread.join()
        cuts = cutter.cuts
        cutter.close()
        assert end(events)["status"] == "ok", end(events)
        lines = text(events).splitlines()
        gaps = [e for e in events if e["type"] == "gap"]
        if not gaps:
            assert lines == [f"{i} {'z' * 50}" for i in range(LINES)], f"{len(lines)} of {LINES} lines"
        print(f"{cuts} cuts, {cutter.connections} connections, {len(lines)} lines, {len(gaps)} gaps reported")
        assert cuts > CUTS // 2, cuts


main()
