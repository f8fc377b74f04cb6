#!/usr/bin/python3
"""Retention on the whole path: old executions go with their files while cells run, what runs stays, what went answers 404 with
a sentence that says how long history is kept; an owner's own bound; carreld killed while much is swept."""
import contextlib
import os
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import TOP, Appliance, end, refused, text, until  # noqa: E402

CARREL = os.path.join(TOP, "build", "carrel")


def store(a, sql, *values):
    with contextlib.closing(sqlite3.connect(os.path.join(a.state, "carrel.db"), timeout=20)) as db, db:
        return db.execute(sql, values).fetchall()


def age(a, x, days):
    store(a, "UPDATE executions SET queued_ms = queued_ms - ?1, ended_ms = ended_ms - ?1 WHERE id = ?2", days * 86400000, x)


def gone(a, x):
    return not store(a, "SELECT 1 FROM executions WHERE id = ?", x) and not os.path.exists(os.path.join(a.state, "spool", x))


def running_cell(a):
    s = a.create(timeout_s=600)["id"]
    stream = a.events("POST", f"/v1/sandboxes/{s}/execute", {"code": "print('on', flush=True)\nimport time; time.sleep(300)"})
    return stream, s, next(stream)["execution_id"]


def ageing(a, s):
    stream, busy, running = running_cell(a)
    old, young = ([a.execute(s, f"print('{word}' * 20000)")[0]["execution_id"] for _ in range(3)] for word in ("old", "young"))
    for x in [*old, running]:
        age(a, x, 31)
    for x in young:
        age(a, x, 29)
    for x in old:
        until(lambda: gone(a, x), but=f"{x} was kept")
        for path in ("", "/stream", "/outputs/1/full"):
            e = refused(404, "not_found", a.request, "GET", f"/v1/executions/{x}{path}")
            assert "History is kept 30 days" in e.error["message"], e
    assert [r["execution_id"] for r in a.json("GET", f"/v1/sandboxes/{s}/executions")["executions"]] == list(reversed(young))
    assert a.json("GET", f"/v1/executions/{running}")["status"] == "running"
    full = a.request("GET", f"/v1/executions/{young[0]}/outputs/1/full")[1]
    assert full == b"young" * 20000 + b"\n"
    a.request("POST", f"/v1/executions/{running}/interrupt")
    assert end(list(stream))["status"] == "interrupted"
    age(a, running, 31)  # its end wrote its own times
    until(lambda: gone(a, running), but="what is over and old was kept")
    # Sandboxes that ended go as well, once nothing of them is left.
    other = busy
    a.kill(other)
    store(a, "UPDATE sandboxes SET ended_ms = ended_ms - 31 * 86400000 WHERE id = ?", other)
    until(lambda: not store(a, "SELECT 1 FROM sandboxes WHERE id = ?", other), but="an old sandbox was kept")
    e = refused(404, "not_found", a.request, "GET", "/v1/sandboxes/" + other)
    assert "History is kept 30 days" in e.error["message"], e
    return young


def own_bound(a, s, young):
    me = a.json("GET", "/v1/me")["id"]
    owner = a.json("PATCH", f"/v1/owners/{me}", {"quota": {"history_days": 20, "sandboxes": 7}})
    assert owner["quota"] == {"history_days": 20, "sandboxes": 7}, owner
    for x in young:
        until(lambda: gone(a, x), but=f"{x} was kept past its owner's days")
    e = refused(404, "not_found", a.request, "GET", "/v1/executions/" + young[0])
    assert "History is kept 20 days" in e.error["message"], e
    for bad in ({"history_days": 0}, {"history_mb": "much"}, {"disk": 3}, "much", {"history_mb": -1}):
        refused(400, {"disk": "unknown_field"}.get(next(iter(bad)), None) or ("wrong_type" if bad == "much" or "much" in bad.values()
                else "out_of_range"), a.request, "PATCH", f"/v1/owners/{me}", {"quota": bad})
    refused(404, "not_found", a.request, "PATCH", "/v1/owners/own-none", {"quota": {}})
    env = dict(os.environ, CARREL_URL=f"http://127.0.0.1:{a.port}", CARREL_TOKEN=a.token)
    done = subprocess.run([CARREL, "owner", "set", me, "--history-mb", "1", "--json"], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and '"history_mb":1' in done.stdout, done
    before = [a.execute(s, "print('m' * 500000)")[0]["execution_id"] for _ in range(4)]
    until(lambda: gone(a, before[0]) and gone(a, before[1]), but="the first two were kept past their owner's MiB")
    assert not gone(a, before[3])
    a.json("PATCH", f"/v1/owners/{me}", {"quota": {}})


def killed(a, s):
    """kill -9 while it sweeps: no row without its files, no files without a row."""
    for n in range(3):
        made = [a.execute(s, "print('k' * 30000)")[0]["execution_id"] for _ in range(20)]
        store(a, "UPDATE executions SET queued_ms = 1, ended_ms = 1")
        until(lambda: any(gone(a, x) for x in made), but="nothing went")
        a.carreld_kill()
        until(lambda: all(gone(a, x) for x in made), but="the next one did not go on")
        spools = set(os.listdir(os.path.join(a.state, "spool")))
        rows = {x for (x,) in store(a, "SELECT id FROM executions")}
        named = {x for (x,) in store(a, "SELECT DISTINCT execution_id FROM outputs WHERE spooled > 0")}
        assert spools <= rows, spools - rows
        assert named <= spools, named - spools
        until(lambda: answers(a), but="carreld was not back")
        assert text(a.execute(s, f"print({n})")) == f"{n}\n"


def answers(a):
    with contextlib.suppress(Exception):
        return a.json("GET", "/healthz")["ready"]
    return False


def main():
    with Appliance(CARRELD_OPTIONS="--history-sweep-s 1") as a:
        s = a.create(timeout_s=600)["id"]
        young = ageing(a, s)
        own_bound(a, s, young)
        killed(a, s)
        a.kill(s)


if __name__ == "__main__":
    main()
