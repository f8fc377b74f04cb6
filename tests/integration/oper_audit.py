#!/usr/bin/python3
"""The audit on the whole path: each create, cell, process, file, key and refusal is a row with who, what, where and how it
ended; what was acknowledged is in it after kill -9; an owner sees its own rows only; syslog gets the same rows."""
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import TOP, Appliance, end, refused  # noqa: E402

CARREL = os.path.join(TOP, "build", "carrel")


def rows(a, key=None, **query):
    """All of them, page by page."""
    got, after = [], 0
    while True:
        path = "/v1/audit?limit=7" + "".join(f"&{k}={v}" for k, v in {**query, "after": after}.items())
        _, data, headers = a.request("GET", path, headers={"Authorization": "Bearer " + (key or a.token)})
        assert headers["Content-Type"] == "application/x-ndjson", headers["Content-Type"]
        page = [json.loads(line) for line in data.splitlines()]
        if not page:
            return got
        assert len(page) <= 7 and [r["seq"] for r in page] == sorted(r["seq"] for r in page) and page[0]["seq"] > after
        got, after = got + page, page[-1]["seq"]


def of(got, action, **fields):
    found = [r for r in got if r["action"] == action and all(r[k] == v for k, v in fields.items())]
    assert found, (action, fields, got)
    return found[-1]


def command(a, *words):
    env = dict(os.environ, CARREL_URL=f"http://127.0.0.1:{a.port}", CARREL_TOKEN=a.token)
    done = subprocess.run([CARREL, *words], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    return done.stdout


def second_owner(a):
    owner = a.json("POST", "/v1/owners", {"name": "team", "quota": 0})["id"]
    return owner, a.json("POST", f"/v1/owners/{owner}/keys", {})


def what_is_done(a, me, kid):
    s = a.create(metadata={"job": "audit"})["id"]
    x = a.execute(s, "print(1)")
    a.put(s, "data.csv", b"1,2,3\n")
    assert a.get(s, "data.csv") == b"1,2,3\n"
    list(a.events("POST", f"/v1/sandboxes/{s}/processes", {"argv": ["true", "--now"]}))
    a.request("DELETE", f"/v1/sandboxes/{s}/files?path=data.csv")
    a.kill(s)
    got = rows(a)
    who = {"owner_id": me, "key_id": kid, "sandbox_id": s, "result": "ok"}
    assert of(got, "sandbox_create", **who)["detail"] == {"job": "audit"}
    assert of(got, "execute", **who)["detail"]["execution_id"] == x[0]["execution_id"]
    assert of(got, "file_put", **who)["detail"] == {"path": "data.csv", "bytes": 6}
    assert of(got, "file_get", **who)["detail"] == {"path": "data.csv", "bytes": 6}
    assert of(got, "process", **who)["detail"]["argv"] == ["true", "--now"]
    assert of(got, "file_delete", **who) and of(got, "sandbox_delete", **who)
    assert of(got, "sandbox_end", **{**who, "key_id": None})["detail"] == {"reason": "asked"}
    assert of(got, "key_use", owner_id=me, key_id=kid)["detail"]["address"] == "127.0.0.1"
    return s


def what_is_refused(a, s, owner, key):
    refused(401, "unauthorized", a.request, "GET", "/v1/me", headers={"Authorization": "Bearer e2b_none"})
    theirs = {"Authorization": "Bearer " + key["key"]}
    refused(429, "quota", a.request, "POST", "/v1/sandboxes", {}, headers=theirs)
    refused(403, "forbidden", a.request, "GET", "/v1/owners", headers=theirs)
    refused(404, "not_found", a.request, "DELETE", "/v1/sandboxes/" + s, headers=theirs)
    got = rows(a)
    assert of(got, "refused", result="unauthorized", owner_id=None)["detail"]["request"] == "GET /v1/me"
    who = {"owner_id": owner, "key_id": key["id"]}
    assert of(got, "refused", result="quota", **who)["detail"]["status"] == 429
    assert of(got, "refused", result="forbidden", **who)
    assert of(got, "refused", result="not_found", sandbox_id=s, **who)
    # Its own rows and no others; asking for another's is asking for nobody's.
    mine = rows(a, key["key"])
    assert mine and {r["owner_id"] for r in mine} == {owner}
    assert rows(a, owner=owner) == rows(a, key["key"])
    refused(404, "not_found", a.request, "GET", "/v1/audit?owner=own-other", headers=theirs)
    refused(400, "bad_time", a.request, "GET", "/v1/audit?since=yesterday")
    assert rows(a, since="2099-01-01T00:00:00Z") == []
    assert {r["sandbox_id"] for r in rows(a, sandbox=s)} == {s}


def what_a_crash_leaves(a):
    s = a.create()["id"]
    acknowledged = []
    for n in range(3):
        a.put(s, f"{n}.txt", b"x")
        assert end(a.execute(s, f"print({n})"))["status"] == "ok"
        acknowledged.append(f"{n}.txt")
    a.carreld_kill()
    deadline = time.monotonic() + 60
    while True:
        with contextlib.suppress(Exception):
            got = rows(a, sandbox=s)
            break
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert [r["detail"]["path"] for r in got if r["action"] == "file_put"] == acknowledged
    assert len([r for r in got if r["action"] == "execute"]) == 3
    a.kill(s)


def main():
    d = tempfile.mkdtemp(prefix="carrel-syslog-")
    os.chmod(d, 0o755)
    log = os.path.join(d, "log")
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as daemon:
        daemon.bind(log)
        os.chmod(log, 0o777)
        daemon.settimeout(20)
        try:
            with Appliance(AUDIT_SYSLOG=log) as a:
                me = a.json("GET", "/v1/me")["id"]
                kid = a.json("GET", f"/v1/owners/{me}/keys")["keys"][0]["id"]
                s = what_is_done(a, me, kid)
                owner, key = second_owner(a)
                what_is_refused(a, s, owner, key)
                text = command(a, "audit", "--sandbox", s, "--since", "1h")
                assert "sandbox_create" in text and "file_put" in text, text
                as_json = [json.loads(line) for line in command(a, "audit", "--json", "--owner", me, "--until", "0s").splitlines()]
                assert {r["owner_id"] for r in as_json} == {me}
                what_a_crash_leaves(a)
                last = rows(a)[-1]["seq"]
                seen = set()
                while last not in seen:
                    message = daemon.recv(65536).decode()
                    assert message.startswith("<86>") and " carrel-audit[" in message, message
                    seen.add(json.loads(message.split("]: ", 1)[1])["seq"])
                assert seen >= set(range(1, last + 1)), sorted(set(range(1, last + 1)) - seen)
        finally:
            os.unlink(log)
            os.rmdir(d)


if __name__ == "__main__":
    main()
