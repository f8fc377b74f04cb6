#!/usr/bin/python3
"""Usage on the whole path: processor and memory time, bytes and ends by owner and tag, as JSON and CSV; nothing is lost or counted
twice when carreld is killed, and a paused sandbox costs nothing."""
import csv
import io
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import TOP, Appliance, end, refused, until  # noqa: E402

CARREL = os.path.join(TOP, "build", "carrel")
BUSY = "import time\nuntil = time.monotonic() + {0}\nwhile time.monotonic() < until:\n    pass"
READ_S = 10  # between two readings
# What the template gives: another size would be booted while its snapshot is made, and could not be paused.
MEMORY_MB = 1024


def usage(a, value=None, **query):
    got = a.json("GET", "/v1/usage?" + "&".join(f"{k}={v}" for k, v in query.items()))["usage"]
    rows = [r for r in got if "tag" not in query or r["value"] == value]
    assert len(rows) <= 1, got
    return rows[0] if rows else {"sandboxes": 0, "cpu_s": 0, "mib_s": 0, "bytes_stored": 0, "ends": {}}


def carreld_killed(a):
    a.carreld_kill()

    until(a.serves)


def one_that_ends(a):
    began = time.monotonic()
    s = a.create(metadata={"team": "a", "=1+1": "x"})["id"]
    assert end(a.execute(s, BUSY.format(3)))["status"] == "ok"
    a.execute(s, "print('b' * 100000)")
    a.kill(s)
    took = time.monotonic() - began
    got = usage(a, "a", tag="team")
    assert got["sandboxes"] == 1 and got["ends"] == {"asked": 1}, got
    assert 1.5 < got["cpu_s"] < 4 * took, (got, took)
    assert MEMORY_MB * 3 < got["mib_s"] < MEMORY_MB * (took + 1), (got, took)
    until(lambda: usage(a, "a", tag="team")["bytes_stored"] > 100000)
    return got


def one_that_lives(a):
    began = time.monotonic()
    s = a.create(metadata={"team": "b"}, timeout_s=600)["id"]
    a.execute(s, BUSY.format(2))
    until(lambda: usage(a, "b", tag="team")["cpu_s"] > 1)
    before = usage(a, "b", tag="team")
    carreld_killed(a)
    after = usage(a, "b", tag="team")
    assert after["cpu_s"] >= before["cpu_s"] and after["mib_s"] >= before["mib_s"], (before, after)
    a.execute(s, BUSY.format(2))
    until(lambda: usage(a, "b", tag="team")["cpu_s"] > before["cpu_s"] + 1)
    a.json("POST", f"/v1/sandboxes/{s}/pause", {})
    ran = time.monotonic() - began
    paused = usage(a, "b", tag="team")
    assert MEMORY_MB * (ran - 2) < paused["mib_s"] < MEMORY_MB * (ran + 2), (paused, ran)
    carreld_killed(a)
    time.sleep(READ_S + 2)
    late = usage(a, "b", tag="team")
    assert late["mib_s"] == paused["mib_s"], (paused, late)
    a.json("POST", f"/v1/sandboxes/{s}/resume", {})
    a.execute(s, BUSY.format(2))
    a.kill(s)
    last = usage(a, "b", tag="team")
    assert last["cpu_s"] > late["cpu_s"] + 1, (late, last)
    assert late["mib_s"] < last["mib_s"] < late["mib_s"] + MEMORY_MB * 30, (late, last)
    assert last["ends"] == {"asked": 1} and last["sandboxes"] == 1, last


def faces(a):
    me = a.json("GET", "/v1/me")
    all_of_me = usage(a, owner=me["id"])
    assert all_of_me["owner"] == me["name"] and all_of_me["sandboxes"] == 2 and all_of_me["ends"] == {"asked": 2}, all_of_me
    assert usage(a, since="2099-01-01T00:00:00Z", until="2099-02-01T00:00:00Z")["sandboxes"] == 0
    _, data, headers = a.request("GET", "/v1/usage?tag=team", headers={"Accept": "text/csv"})
    assert headers["Content-Type"] == "text/csv; charset=utf-8", headers["Content-Type"]
    table = list(csv.DictReader(io.StringIO(data.decode())))
    assert {r["value"]: r["ends"] for r in table if r["value"]} == {"a": "asked=1", "b": "asked=1"}, table
    assert b"\"'=1+1\"" in a.request("GET", "/v1/usage?format=csv&tag=%3D1%2B1")[1]
    owner = a.json("POST", "/v1/owners", {"name": "other"})["id"]
    key = {"Authorization": "Bearer " + a.json("POST", f"/v1/owners/{owner}/keys", {})["key"]}
    assert a.json("GET", "/v1/usage", headers=key)["usage"] == []
    refused(404, "not_found", a.request, "GET", f"/v1/usage?owner={me['id']}", headers=key)
    refused(400, "bad_query", a.request, "GET", "/v1/usage?tag=%22")
    refused(400, "bad_query", a.request, "GET", "/v1/usage?format=xml")
    env = dict(os.environ, CARREL_URL=f"http://127.0.0.1:{a.port}", CARREL_TOKEN=a.token)
    for words, wanted in (([], "asked 2"), (["--tag", "team", "--since", "2h"], "asked 1"), (["--csv"], "asked=2"), (["--json"], '"asked":2')):
        done = subprocess.run([CARREL, "usage", *words], env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and wanted in done.stdout, done


def main():
    # The figures of an hour that ends meanwhile are two rows; questions sum them up.
    with Appliance(CARRELD_OPTIONS="--history-sweep-s 1") as a:
        one_that_ends(a)
        one_that_lives(a)
        faces(a)


if __name__ == "__main__":
    main()
