#!/usr/bin/python3
"""Several owners share one appliance without seeing each other: every route of the routing table, tried with
another owner's key, answers as if the thing did not exist. Keys die at once, expire, and end at quotas."""
import contextlib
import datetime
import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import TOP, Appliance, end, text  # noqa: E402

KEY = re.compile(r"e2b_[0-9a-f]{64}")
SECRET = "only-the-first-owner-knows"


def ask(a, key, method, path, body=None):
    c = http.client.HTTPConnection("127.0.0.1", a.port, timeout=60)
    headers = {"Authorization": "Bearer " + key}
    with contextlib.closing(c):
        c.request(method, path, body=json.dumps(body).encode() if isinstance(body, dict) else body, headers=headers)
        r = c.getresponse()
        data = r.read()
    with contextlib.suppress(ValueError):
        data = json.loads(data)
    return r.status, data, r.headers


def new_key(a, name, quota=None, **spec):
    """-> (owner's id, key's id, key)"""
    status, owner, _ = ask(a, a.token, "POST", "/v1/owners", {"name": name, **({} if quota is None else {"quota": quota})})
    assert status == 201 and owner["name"] == name, (status, owner)
    status, key, _ = ask(a, a.token, "POST", f"/v1/owners/{owner['id']}/keys", spec)
    assert status == 201 and KEY.fullmatch(key["key"]) and key["admin"] is False, (status, key)
    return owner["id"], key["id"], key["key"]


def routes():
    out = subprocess.run([os.path.join(TOP, "build", "carreld"), "--routes"], capture_output=True, text=True, check=True)
    return [line.split()[:3] for line in out.stdout.splitlines()]


# What a valid request of each route carries, so that nothing but the owner decides.
BODIES = {"timeout": {"timeout_s": 500}, "execute": {"code": "1"}, "processes": {"cmd": "true"}, "owners": {"name": "x"}}


def every_route(a, mine, foreign, things):
    """things: {pattern's name: (a thing of the first owner, one that never was)}"""
    tried = 0
    for method, pattern, rights in routes():
        query = "?path=kept.txt" if pattern.endswith("/files") else ""
        body = BODIES.get(pattern.rsplit("/", 1)[-1], {}) if method == "POST" else b"spoilt" if method == "PUT" else None
        theirs = re.sub(r"\{(\w+)\}", lambda m: things(pattern, m[1], 0), pattern) + query
        never = re.sub(r"\{(\w+)\}", lambda m: things(pattern, m[1], 1), pattern) + query
        if rights == "admin":
            # Refused before the thing is looked for, whether it is there or not.
            for path in (theirs, never):
                status, error, _ = ask(a, foreign, method, path, body)
                assert (status, error["code"]) == (403, "forbidden"), (method, path, status, error)
        elif "{" in pattern:
            one, two = ask(a, foreign, method, theirs, body), ask(a, foreign, method, never, body)
            assert one[:2] == two[:2], f"{method} {pattern}: told apart: {one[:2]} {two[:2]}"
            assert one[0] in (404, 501), f"{method} {pattern}: {one[:2]}"
        else:
            continue
        tried += 1
    assert tried > 25, tried
    for path in ("/v1/sandboxes", "/v1/sandboxes?state=ended", "/v1/sandboxes?state=running,ended"):
        status, body, _ = ask(a, foreign, "GET", path)
        assert status == 400 or body["sandboxes"] == [], (path, body)


def isolation(a, foreign):
    s = a.create(metadata={"who": SECRET}, timeout_s=600)
    url = "/v1/sandboxes/" + s["id"]
    a.put(s["id"], "kept.txt", b"kept")
    events = a.execute(s["id"], f"kept = 41\nprint({SECRET!r})")
    x = events[0]["execution_id"]
    kernel = a.json("GET", url + "/kernels")["kernels"][0]["id"]
    me = a.json("GET", "/v1/me")["id"]
    key = a.json("GET", f"/v1/owners/{me}/keys")["keys"][0]["id"]

    def things(pattern, name, never):
        noun = pattern.split("/")[2]
        there = {"sandboxes": s["id"], "executions": x, "kernels": kernel, "owners": me, "keys": key}.get(noun, "none-1")
        return "0" if name == "n" else "never-" + there[:20] if never else there

    before = [a.json("GET", p) for p in (url, url + "/executions", url + "/kernels", "/v1/owners", f"/v1/owners/{me}/keys")]
    every_route(a, a.token, foreign, things)
    after = [a.json("GET", p) for p in (url, url + "/executions", url + "/kernels", "/v1/owners", f"/v1/owners/{me}/keys")]
    assert before == after, (before, after)
    assert a.get(s["id"], "kept.txt") == b"kept"
    assert text(a.execute(s["id"], "print(kept + 1)")) == "42\n"
    # An admin's key is no key to what other owners have.
    status, theirs, _ = ask(a, foreign, "POST", "/v1/sandboxes", {})
    assert status == 201, theirs
    a.created |= {theirs["id"]}
    assert ask(a, a.token, "GET", "/v1/sandboxes/" + theirs["id"])[0] == 404
    assert ask(a, a.token, "DELETE", "/v1/sandboxes/" + theirs["id"])[0] == 404
    assert [r["id"] for r in a.json("GET", "/v1/sandboxes")["sandboxes"]] == [s["id"]]
    metrics = a.request("GET", "/metrics")[1].decode()
    assert SECRET not in metrics and "tenant" not in metrics and "own-" not in metrics
    erasing(a, s["id"], x)
    a.kill(s["id"])
    assert ask(a, foreign, "GET", url)[0] == 404  # also after its end
    return theirs["id"]


def erasing(a, s, x):
    """DELETE of an execution: 409 while it runs; then its words are gone from the disk, not only from the answers."""
    stream = a.events("POST", f"/v1/sandboxes/{s}/execute", {"code": "print('on', flush=True)\nimport time; time.sleep(300)"})
    running = next(stream)["execution_id"]
    status, error, _ = ask(a, a.token, "DELETE", "/v1/executions/" + running)
    assert (status, error["code"]) == (409, "wrong_state") and error["message"].endswith("."), error
    a.request("POST", f"/v1/executions/{running}/interrupt")
    assert end(list(stream))["status"] == "interrupted"
    big = a.execute(s, f"print({SECRET!r} * 20000)")[0]["execution_id"]
    kept = a.json("GET", "/v1/executions/" + big)
    assert kept["outputs"][0]["truncated"] is True
    assert os.path.exists(os.path.join(a.state, "spool", big))
    for thing in (x, big):
        row = a.json("GET", "/v1/executions/" + thing)
        for _ in range(2):
            assert ask(a, a.token, "DELETE", "/v1/executions/" + thing)[0] == 204
        erased = a.json("GET", "/v1/executions/" + thing)
        assert erased == {**row, "code": None, "outputs": []}, erased
        assert ask(a, a.token, "GET", f"/v1/executions/{thing}/stream")[0] == 404
        assert ask(a, a.token, "GET", f"/v1/executions/{thing}/outputs/1/full")[0] == 404
        assert not os.path.exists(os.path.join(a.state, "spool", thing))
    found = subprocess.run(["sqlite3", os.path.join(a.state, "carrel.db"),
                            f"SELECT count(*) FROM outputs WHERE head || tail LIKE '%{SECRET}%';"
                            f"SELECT count(*) FROM executions WHERE code LIKE '%{SECRET}%'"], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["0", "0"], found.stdout
    assert end(a.execute(s, "1"))["status"] == "ok"


def keys(a, owner, kid, key, sandbox):
    """Only hashes at rest; a revoked key is dead at once, an expired one when its time comes."""
    dump = subprocess.run(["sqlite3", os.path.join(a.state, "carrel.db"), ".dump owners keys audit"], capture_output=True, text=True, check=True).stdout
    for secret in (key, a.token, key[4:]):
        assert secret not in dump
    listed = a.json("GET", f"/v1/owners/{owner}/keys")["keys"]
    assert [k["id"] for k in listed] == [kid] and key not in json.dumps(listed)
    soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=3)
    status, short, _ = ask(a, a.token, "POST", f"/v1/owners/{owner}/keys", {"name": "soon", "expires_at": soon.isoformat()})
    assert status == 201, short
    assert ask(a, short["key"], "GET", "/v1/me")[1]["id"] == owner
    # Another key of the same owner sees the same things.
    assert ask(a, short["key"], "GET", "/v1/sandboxes/" + sandbox)[0] == 200
    # A stream that is open goes on; every later request is refused, from the very next one on.
    opened = []
    c = http.client.HTTPConnection("127.0.0.1", a.port, timeout=60)
    c.request("POST", f"/v1/sandboxes/{sandbox}/execute", json.dumps({"code": "import time; time.sleep(4); print(7)"}),
              {"X-API-KEY": key})
    r = c.getresponse()
    opened.append(json.loads(r.readline()))
    assert ask(a, a.token, "DELETE", "/v1/keys/" + kid)[0] == 204
    for _ in range(20):
        status, error, _ = ask(a, key, "GET", "/v1/me")
        assert (status, error["code"]) == (401, "unauthorized"), (status, error)
    opened += [json.loads(line) for line in r]
    assert end(opened)["status"] == "ok" and text(opened) == "7\n"
    c.close()
    assert ask(a, a.token, "DELETE", "/v1/keys/" + kid)[0] == 204  # again
    assert [bool(k.get("revoked_at")) for k in a.json("GET", f"/v1/owners/{owner}/keys")["keys"]] == [False, True]
    deadline = time.monotonic() + 10
    while ask(a, short["key"], "GET", "/v1/me")[0] == 200:
        assert time.monotonic() < deadline, "an expired key still opens"
        time.sleep(0.1)
    assert datetime.datetime.now(datetime.timezone.utc) >= soon
    # Keys of the first owner are admin keys; a lesser one can be asked for.
    me = a.json("GET", "/v1/me")["id"]
    for spec, status in (({}, 200), ({"admin": False}, 403)):
        made = ask(a, a.token, "POST", f"/v1/owners/{me}/keys", spec)[1]
        assert ask(a, made["key"], "GET", "/v1/owners")[0] == status
        assert ask(a, a.token, "DELETE", "/v1/keys/" + made["id"])[0] == 204


def quotas(a):
    """Refused with 429 and nothing made; creates at the same moment cannot pass it together."""
    owner, _, key = new_key(a, "tenant two", quota={"sandboxes": 2})
    _, _, none = new_key(a, "tenant nought", quota=0)
    assert ask(a, key, "GET", "/v1/me")[1] == {"id": owner, "name": "tenant two", "admin": False, "quota": {"sandboxes": 2},
                                               "running": {"sandboxes": 0}}
    assert a.json("GET", "/v1/me")["quota"] == {"sandboxes": 20}
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(ask(a, key, "POST", "/v1/sandboxes", {}))) for _ in range(5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    made = [body["id"] for status, body, _ in answers if status == 201]
    a.created |= set(made)
    assert sorted(status for status, _, _ in answers) == [201, 201, 429, 429, 429], answers
    for status, error, headers in answers:
        if status == 429:
            assert error["code"] == "quota" and error["message"].endswith(".") and int(headers["Retry-After"]) > 0, error
    assert sorted(s["id"] for s in ask(a, key, "GET", "/v1/sandboxes")[1]["sandboxes"]) == sorted(made)
    assert ask(a, key, "GET", "/v1/sandboxes?state=ended")[1]["sandboxes"] == []
    assert ask(a, key, "GET", "/v1/me")[1]["running"] == {"sandboxes": 2}
    status, error, _ = ask(a, none, "POST", "/v1/sandboxes", {})
    assert (status, error["code"]) == (429, "quota"), error
    assert ask(a, key, "DELETE", "/v1/sandboxes/" + made[0])[0] == 204
    status, again, _ = ask(a, key, "POST", "/v1/sandboxes", {})
    assert status == 201, again
    a.created |= {again["id"]}
    for sandbox in (made[1], again["id"]):
        assert ask(a, key, "DELETE", "/v1/sandboxes/" + sandbox)[0] == 204


def main():
    with Appliance() as a:
        owner, kid, key = new_key(a, "tenant one")
        sandbox = isolation(a, key)
        keys(a, owner, kid, key, sandbox)
        quotas(a)


main()
