#!/usr/bin/python3
"""64 silent cells hold their streams, and delete and /healthz answer all the same, within 100 ms."""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import Appliance, Refused, end  # noqa: E402

STREAMS = 64
ANSWER_S = 0.1


def another_owner_is_served(a):
    owner = a.json("POST", "/v1/owners", {"name": "another"})["id"]
    key = a.json("POST", f"/v1/owners/{owner}/keys", {"name": "k"})["key"]
    headers = {"Authorization": "Bearer " + key}
    s = a.json("POST", "/v1/sandboxes", {}, headers=headers)
    a.created = a.created | {s["id"]}
    events = list(a.events("POST", f"/v1/sandboxes/{s['id']}/execute", {"code": "print(1)"}, headers=headers))
    assert end(events)["status"] == "ok", events
    a.request("DELETE", f"/v1/sandboxes/{s['id']}", headers=headers)


def main():
    with Appliance() as a:
        busy = [a.create() for _ in range(2)]
        victims = [a.create() for _ in range(3)]
        endings, lock = [], threading.Lock()

        def silent(s):
            events = list(a.events("POST", f"/v1/sandboxes/{s['id']}/execute", {"code": "import time\ntime.sleep(3600)"}))
            with lock:
                endings.append(end(events))

        threads = [threading.Thread(target=silent, args=(busy[i % 2],)) for i in range(STREAMS)]
        for t in threads:
            t.start()
        while sum(len(a.json("GET", f"/v1/sandboxes/{s['id']}/executions?limit=1000")["executions"]) for s in busy) < STREAMS:
            time.sleep(0.1)

        def timed(call):
            began = time.monotonic()
            call()
            return time.monotonic() - began

        health = min(timed(lambda: a.request("GET", "/healthz")) for _ in range(5))
        assert health < ANSWER_S, f"/healthz took {health:.3f} s"
        gone = min(timed(lambda v=v: a.kill(v["id"])) for v in victims)  # the best: other load is not what is asked
        assert gone < ANSWER_S, f"delete took {gone:.3f} s"
        try:
            a.execute(busy[0]["id"], "1")
            raise AssertionError("a stream past the pool was let in")
        except Refused as e:
            assert e.status == 503 and int(e.headers["Retry-After"]) > 0, (e.status, e.body)
        another_owner_is_served(a)
        for s in busy:
            a.kill(s["id"])
        for t in threads:
            t.join()
        assert len(endings) == STREAMS
        assert {e["status"] for e in endings} <= {"died", "cancelled"}, endings


main()
