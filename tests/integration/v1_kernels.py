#!/usr/bin/python3
"""Several kernels in one sandbox: variables apart, one queue each, and every verb ends what it should."""
import contextlib
import http.client
import os
import sys
import threading
import time
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import Appliance, Refused, end, text  # noqa: E402

QUEUE = 100


def refused(status, code, call, *args, **kw):
    try:
        call(*args, **kw)
    except Refused as e:
        assert (e.status, e.error.get("code")) == (status, code), (e, status, code)
        assert e.error["message"].endswith("."), e
        return e
    raise AssertionError(f"{args} was not refused")


def kernels(a, s):
    return a.json("GET", f"/v1/sandboxes/{s['id']}/kernels")["kernels"]


def kernel(a, s, kid):
    [k] = [k for k in kernels(a, s) if k["id"] == kid]
    return k


def new_kernel(a, s, **body):
    return a.json("POST", f"/v1/sandboxes/{s['id']}/kernels", body)


def started(events):
    [e] = [e for e in events if e["type"] == "started"]
    return e


class Cell(threading.Thread):
    """A cell whose events are read beside the test; .id once it is known."""

    def __init__(self, a, s, code, **spec):
        super().__init__(daemon=True)
        self.events, self.known, self.printed = [], threading.Event(), threading.Event()
        self.stream = a.events("POST", f"/v1/sandboxes/{s['id']}/execute", {"code": code, **spec})
        self.start()
        assert self.known.wait(60), code

    def run(self):
        with contextlib.suppress(OSError, http.client.HTTPException):  # all() sees that the end is missing
            self.read()

    def read(self):
        for e in self.stream:
            self.events.append(e)
            if "execution_id" in e:
                self.id = e["execution_id"]
                self.known.set()
            if e["type"] == "stdout":
                self.printed.set()

    def all(self):
        self.join(120)
        assert not self.is_alive(), self.events
        numbers = [e["seq"] for e in self.events if e["type"] != "keepalive"]
        assert numbers == list(range(1, len(numbers) + 1)), numbers
        assert sum(e["type"] == "end" for e in self.events) == 1 and self.events[-1]["type"] == "end"
        return self.events


def sleeper(a, s, **spec):
    c = Cell(a, s, "import time\nprint('on')\nwhile True: time.sleep(0.1)", **spec)
    assert c.printed.wait(60)
    return c


def waiting(a, s, code, **spec):
    """A cell that has to wait; its stream is given up at once, which does not end it."""
    with contextlib.closing(a.events("POST", f"/v1/sandboxes/{s['id']}/execute", {"code": code, **spec})) as stream:
        first = next(stream)
    assert first["type"] == "queued" and first["seq"] == 1, first
    return first


def stream(a, xid, after=0):
    return list(a.events("GET", f"/v1/executions/{xid}/stream?after={after}"))


def interrupt(a, xid):
    assert a.request("POST", f"/v1/executions/{xid}/interrupt")[0] == 204


def apart(a, s):
    [first] = kernels(a, s)
    assert set(first) == {"id", "sandbox_id", "name", "language", "state", "execution_count", "queue"}, first
    assert first["sandbox_id"] == s["id"] and first["language"] == "python" and first["queue"] == []
    second = new_kernel(a, s, language="python")
    assert second["id"] != first["id"] and second["state"] in ("starting", "idle"), second
    third = new_kernel(a, s, name=second["name"], cwd="/tmp")
    a.execute(s["id"], "x = 1")
    a.execute(s["id"], "x = 2", kernel_id=second["id"])
    assert text(a.execute(s["id"], "print(x)", kernel_id=first["id"])) == "1\n"
    assert text(a.execute(s["id"], "print(x)", kernel_id=second["id"], language="python")) == "2\n"
    assert text(a.execute(s["id"], "print(x)", language="python")) == "1\n"
    assert text(a.execute(s["id"], "import os; print(os.getcwd())", kernel_id=third["id"])) == "/tmp\n"
    assert [k["id"] for k in kernels(a, s)] == [first["id"], second["id"], third["id"]]
    assert [k["execution_count"] for k in kernels(a, s)] == [3, 2, 1], kernels(a, s)
    assert all(k["state"] == "idle" for k in kernels(a, s)), kernels(a, s)
    page = a.json("GET", f"/v1/sandboxes/{s['id']}/kernels?limit=2")
    assert [k["id"] for k in page["kernels"]] == [first["id"], second["id"]], page
    page = a.json("GET", f"/v1/sandboxes/{s['id']}/kernels?limit=2&cursor={page['next']}")
    assert [k["id"] for k in page["kernels"]] == [third["id"]] and page["next"] is None, page
    return first, second, third


def bad_input(a, s, first):
    path = f"/v1/sandboxes/{s['id']}/kernels"
    before = [k["id"] for k in kernels(a, s)]
    nowhere = str(uuid.uuid4())
    for status, code, body in ((400, "unknown_language", {"language": "cobol"}),
                               (400, "unknown_kernel", {"name": "cobol"}),
                               (400, "unknown_field", {"lang": "python"}),
                               (400, "wrong_type", {"language": 3}),
                               (400, "out_of_range", {"language": ""}),
                               (400, "out_of_range", {"language": "x" * 64}),
                               (400, "bad_request", {"language": "python", "name": "python"}),
                               (400, "bad_cwd", {"cwd": "/no/such/folder"}),
                               (400, "bad_cwd", {"cwd": "/etc/passwd"})):
        refused(status, code, a.json, "POST", path, body)
    for method, verb in (("DELETE", ""), ("POST", "/restart"), ("POST", "/interrupt")):
        refused(404, "not_found", a.json, method, f"/v1/kernels/{nowhere}{verb}")
        refused(404, "not_found", a.json, method, f"/v1/kernels/{s['id']}{verb}")
    refused(404, "not_found", a.json, "GET", "/v1/sandboxes/sbx-never/kernels")
    refused(404, "not_found", a.json, "POST", "/v1/sandboxes/sbx-never/kernels", {})
    refused(404, "not_found", a.execute, s["id"], "1", kernel_id=nowhere)
    refused(400, "unknown_language", a.execute, s["id"], "1", language="cobol")
    refused(400, "unknown_language", a.execute, s["id"], "1", language="cobol", kernel_id=first["id"])
    refused(400, "bad_cursor", a.json, "GET", path + "?cursor=17")
    refused(405, "method_not_allowed", a.json, "GET", f"/v1/kernels/{first['id']}/restart")
    refused(404, "not_found", a.json, "GET", f"/v1/kernels/{nowhere}/connection")
    refused(400, "bad_query", a.json, "GET", f"/v1/kernels/{first['id']}/connection?transport=udp")
    assert [k["id"] for k in kernels(a, s)] == before, "something was half made"


def foreign(a, s, first):
    """With another owner's key it is as if nothing were there."""
    owner = a.json("POST", "/v1/owners", {"name": "other"})
    key = a.json("POST", f"/v1/owners/{owner['id']}/keys", {})["key"]
    other = {"headers": {"Authorization": "Bearer " + key}}
    path = f"/v1/sandboxes/{s['id']}"
    for method, at, body in (("GET", path + "/kernels", None),
                             ("POST", path + "/kernels", {}),
                             ("POST", path + "/execute", {"code": "1", "kernel_id": first["id"]}),
                             ("DELETE", f"/v1/kernels/{first['id']}", None),
                             ("POST", f"/v1/kernels/{first['id']}/restart", {}),
                             ("POST", f"/v1/kernels/{first['id']}/interrupt", {})):
        refused(404, "not_found", a.json, method, at, body, **other)
    mine = a.json("POST", "/v1/sandboxes", {}, **other)
    a.created = a.created | {mine["id"]}
    body = {"code": "1", "kernel_id": first["id"]}
    refused(404, "not_found", a.json, "POST", f"/v1/sandboxes/{mine['id']}/execute", body, **other)
    a.request("DELETE", f"/v1/sandboxes/{mine['id']}", **other)


def order(a, s, k):
    """Cells wait in order; one that is interrupted there never starts."""
    kid = k["id"]
    a.execute(s["id"], "seen = []", kernel_id=kid)
    running = sleeper(a, s, kernel_id=kid)
    cells = [waiting(a, s, f"seen.append({i})", kernel_id=kid) for i in range(4)]
    assert [c["position"] for c in cells] == [1, 2, 3, 4], cells
    ids = [c["execution_id"] for c in cells]
    now = kernel(a, s, kid)
    assert now["state"] == "busy" and now["queue"] == ids, (now, ids)
    assert a.json("GET", f"/v1/executions/{ids[1]}")["status"] == "queued"
    interrupt(a, ids[1])
    assert kernel(a, s, kid)["queue"] == [ids[0], ids[2], ids[3]]
    assert [e["type"] for e in stream(a, ids[1])] == ["queued", "end"]
    row = a.json("GET", f"/v1/executions/{ids[1]}")
    assert row["status"] == "cancelled" and row["kernel_id"] == kid and not row.get("started_at"), row
    # Another kernel does not wait for this one.
    assert text(a.execute(s["id"], "print('free')")) == "free\n"
    assert a.request("POST", f"/v1/kernels/{kid}/interrupt")[0] == 204
    assert end(running.all())["status"] == "interrupted", running.events
    events = stream(a, ids[3])
    assert [e["type"] for e in events] == ["queued", "started", "end"], events
    assert [e["seq"] for e in events] == [1, 2, 3]
    assert events[0]["position"] == 4 and events[0]["execution_id"] == ids[3]
    assert stream(a, ids[3], after=1) == events[1:] and stream(a, ids[3], after=3) == []
    assert text(a.execute(s["id"], "print(seen)", kernel_id=kid)) == "[0, 2, 3]\n"
    assert a.request("POST", f"/v1/kernels/{kid}/interrupt")[0] == 204  # nothing runs: nothing happens
    assert text(a.execute(s["id"], "print(seen)", kernel_id=kid)) == "[0, 2, 3]\n"


def full(a, s, k):
    kid = k["id"]
    running = sleeper(a, s, kernel_id=kid)
    ids = [waiting(a, s, "1", kernel_id=kid)["execution_id"] for _ in range(QUEUE)]
    e = refused(429, "queue_full", a.execute, s["id"], "1", kernel_id=kid)
    assert int(e.headers["Retry-After"]) >= 1
    assert kernel(a, s, kid)["queue"] == ids
    restarted = a.json("POST", f"/v1/kernels/{kid}/restart")
    assert restarted["id"] == kid and restarted["queue"] == [] and restarted["execution_count"] == 0, restarted
    last = end(running.all())
    assert (last["status"], last["reason"]) == ("died", "kernel-restarted"), last
    assert "signal" not in last and "exit_code" not in last, last
    for xid in ids[0], ids[-1]:
        last = end(stream(a, xid))
        assert (last["status"], last["reason"]) == ("cancelled", "kernel-restarted"), last


def restart(a, s, k):
    events = a.execute(s["id"], "print('seen' in globals())", kernel_id=k["id"])
    assert text(events) == "False\n" and started(events)["kernel_restarted"] is True, events
    assert started(events)["execution_count"] == 1
    assert "kernel_restarted" not in started(a.execute(s["id"], "1", kernel_id=k["id"]))
    assert a.json("POST", f"/v1/kernels/{k['id']}/restart", {})["state"] in ("starting", "idle")
    assert started(a.execute(s["id"], "1", kernel_id=k["id"]))["kernel_restarted"] is True
    # Restarted before it can have begun: neither runs on nor comes back.
    cell = Cell(a, s, "came_back = 1\nimport time\ntime.sleep(600)", kernel_id=k["id"])
    a.json("POST", f"/v1/kernels/{k['id']}/restart")
    assert end(cell.all())["status"] == "died"
    assert text(a.execute(s["id"], "print('came_back' in globals())", kernel_id=k["id"])) == "False\n"


def death(a, s, dying, other):
    a.execute(s["id"], "kept = 5", kernel_id=other["id"])
    last = end(a.execute(s["id"], "import os; os._exit(3)", kernel_id=dying["id"]))
    assert last["status"] == "died" and last["exit_code"] == 3, last
    events = a.execute(s["id"], "print(kept)", kernel_id=other["id"])
    assert text(events) == "5\n" and "kernel_restarted" not in started(events), events
    assert started(a.execute(s["id"], "1", kernel_id=dying["id"]))["kernel_restarted"] is True


def outlive(a, s, first, second):
    """Kernels and their queues are there again after carreld was killed."""
    running = Cell(a, s, "import time\nprint('on')\ntime.sleep(4)\nprint(kept)", kernel_id=second["id"])
    assert running.printed.wait(60)
    queued = waiting(a, s, "print(kept + 1)", kernel_id=second["id"])["execution_id"]
    before = [k["id"] for k in kernels(a, s)]
    a.carreld_kill()
    limit = time.monotonic() + 60
    while True:
        try:
            events = stream(a, queued)
            if events and events[-1]["type"] == "end":
                break
        except (Refused, OSError, http.client.HTTPException):
            pass  # away, or cut: until the launcher has it back
        assert time.monotonic() < limit, "carreld did not come back"
        time.sleep(0.2)
    assert [k["id"] for k in kernels(a, s)] == before
    assert text(stream(a, running.id)) == "on\n5\n" and text(events) == "6\n", events
    assert text(a.execute(s["id"], "print('kept' in globals())", kernel_id=first["id"])) == "False\n"


def delete(a, s, first, second, third):
    running = sleeper(a, s, kernel_id=third["id"])
    queued = waiting(a, s, "1", kernel_id=third["id"])["execution_id"]
    assert a.request("DELETE", f"/v1/kernels/{third['id']}")[0] == 204
    assert end(running.all())["status"] == "died" and end(running.events)["reason"] == "kernel-deleted"
    last = end(stream(a, queued))
    assert (last["status"], last["reason"]) == ("cancelled", "kernel-deleted"), last
    refused(404, "not_found", a.json, "DELETE", f"/v1/kernels/{third['id']}")
    refused(404, "not_found", a.execute, s["id"], "1", kernel_id=third["id"])
    assert [k["id"] for k in kernels(a, s)] == [first["id"], second["id"]]
    assert text(a.execute(s["id"], "print(kept)", kernel_id=second["id"])) == "5\n"
    # The default one comes back, empty, when something needs it.
    assert a.request("DELETE", f"/v1/kernels/{first['id']}")[0] == 204
    assert [k["id"] for k in kernels(a, s)] == [second["id"]]
    assert text(a.execute(s["id"], "print('x' in globals())")) == "False\n"
    assert text(a.execute(s["id"], "print(kept)", kernel_id=second["id"])) == "5\n"
    assert len(kernels(a, s)) == 2


def ended(a, s, k):
    running = sleeper(a, s, kernel_id=k["id"])
    queued = waiting(a, s, "1", kernel_id=k["id"])["execution_id"]
    a.kill(s["id"])
    assert end(running.all())["status"] == "died" and end(running.events)["reason"] == "asked"
    assert end(stream(a, queued))["reason"] == "asked"
    assert kernels(a, s) == []
    refused(409, "wrong_state", new_kernel, a, s)
    refused(404, "not_found", a.json, "POST", f"/v1/kernels/{k['id']}/restart")


def main():
    with Appliance() as a:
        s = a.create(timeout_s=3600)
        first, second, third = apart(a, s)
        bad_input(a, s, first)
        foreign(a, s, first)
        order(a, s, second)
        full(a, s, second)
        restart(a, s, second)
        death(a, s, first, second)
        outlive(a, s, first, second)
        delete(a, s, first, second, third)
        ended(a, s, second)


main()
