#!/usr/bin/python3
"""The native API by its reference, line by line: every name, field, status, header, default and bound of it."""
import contextlib
import datetime
import itertools
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import Appliance, Refused, end, text  # noqa: E402

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
SANDBOX = {"id", "state", "engine", "template", "image", "started", "created_at", "deadline", "limits", "metadata"}
KERNEL = {"id", "sandbox_id", "name", "language", "state", "execution_count", "queue"}
EXECUTION = {"execution_id", "sandbox_id", "kernel_id", "code", "status", "started_at", "ended_at", "outputs"}
OUTPUT = {"n", "kind", "text", "bytes", "truncated"}
ENTRY = {"name", "path", "type", "size", "mode", "mtime"}
MIB = 1 << 20
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def has(thing, *groups):
    names = set().union(*groups)
    assert names <= set(thing), f"lacks {names - set(thing)}: {thing}"


def instant(value):
    assert TIME.fullmatch(value), value
    return datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))


def refused(status, code, call, *args, **kw):
    try:
        call(*args, **kw)
    except Refused as e:
        assert (e.status, e.error.get("code")) == (status, code), (e, status, code)
        assert e.headers["Content-Type"] == "application/json" and set(e.error) <= {"code", "message", "field"}, e
        if status in (429, 503):
            assert int(e.headers["Retry-After"]) > 0
        return e
    raise AssertionError(f"{args} was not refused")


def paged(a, path, name):
    """Everything under path, one entry a page; the pages together are the one list."""
    sep = "&" if "?" in path else "?"
    rows, cursor = [], ""
    while cursor is not None:
        page = a.json("GET", f"{path}{sep}limit=1&cursor={cursor}")
        assert set(page) == {name, "next"} and len(page[name]) <= 1, page
        rows += page[name]
        cursor = page["next"]
    whole = a.json("GET", path)
    assert whole[name] == rows and whole["next"] is None, (whole, rows)
    for limit in ("0", "1001", "-1", "1.5", "x"):
        refused(400, "out_of_range" if limit in ("0", "1001") else "wrong_type", a.json, "GET", f"{path}{sep}limit={limit}")
    assert a.json("GET", f"{path}{sep}limit=1000")[name] == rows
    return rows


def keys(a):
    for headers in ({"Authorization": "Bearer " + a.token}, {"X-API-KEY": a.token, "Authorization": ""}):
        assert a.json("GET", "/v1/me", headers=headers)["admin"] is True
    for headers in ({"Authorization": ""}, {"Authorization": "Bearer e2b_" + "0" * 64}, {"X-API-KEY": "x", "Authorization": ""}):
        refused(401, "unauthorized", a.json, "GET", "/v1/me", headers=headers)
        refused(401, "unauthorized", a.json, "GET", "/metrics", headers=headers)
        health = a.json("GET", "/healthz", headers=headers)
        assert health["ready"] is True and health["status"] == "ok" and health["version"], health


def bodies(a, s):
    """1 MiB and 32 levels are taken, one more of either is not."""
    url = f"/v1/sandboxes/{s}/timeout"
    for size, fits in ((MIB, True), (MIB + 1, False)):
        body = b'{"timeout_s":3600' + b" " * (size - 18) + b"}"
        assert len(body) == size
        if fits:
            assert a.json("POST", url, body)["id"] == s
        else:
            refused(413, "body_too_large", a.json, "POST", url, body)
    # metadata's own object is the second level; an engine that is none ends what gets so far.
    for depth, code in ((32, "out_of_range"), (33, "too_deep")):
        body = b'{"metadata":' + b'{"a":' * (depth - 2) + b"{}" + b"}" * (depth - 2) + b',"engine":"none"}'
        refused(400, code, a.json, "POST", "/v1/sandboxes", body)
    refused(400, "unknown_field", a.json, "POST", url, {"timeout_s": 1, "unit": "s"})


def sandboxes(a):
    s = a.create()
    assert set(s) == SANDBOX, s
    assert s["state"] == "running" and s["template"] == "python" and s["engine"] in ("kvm", "tcg"), s
    assert s["started"] in ("pool", "clone", "boot") and re.fullmatch(r"[0-9a-f]{16,64}", s["image"]), s
    assert s["limits"] == {"memory_mb": 1024, "cpus": 1, "disk_mb": 1024} and s["metadata"] == {}, s
    lives = (instant(s["deadline"]) - instant(s["created_at"])).total_seconds()
    assert 299 < lives <= 301, s
    assert a.json("GET", "/v1/sandboxes/" + s["id"]) == s
    for timeout_s in (1 << 31, 0, 86401):
        refused(400, "out_of_range", a.json, "POST", f"/v1/sandboxes/{s['id']}/timeout", {"timeout_s": timeout_s})
    for timeout_s in (86400, 600):
        moved = a.json("POST", f"/v1/sandboxes/{s['id']}/timeout", {"timeout_s": timeout_s})
        left = instant(moved["deadline"]) - datetime.datetime.now(datetime.timezone.utc)
        assert abs(left.total_seconds() - timeout_s) < 5 and {**moved, "deadline": s["deadline"]} == s, moved
    small = a.create(timeout_s=60, engine=s["engine"], template="python", env={"A": "b"}, metadata={"k": [1, {"x": None}]},
                     limits={"memory_mb": 256, "cpus": 0.5, "disk_mb": 64})
    assert small["limits"] == {"memory_mb": 256, "cpus": 0.5, "disk_mb": 64} and small["metadata"] == {"k": [1, {"x": None}]}, small
    assert [r["id"] for r in paged(a, "/v1/sandboxes", "sandboxes")] == [small["id"], s["id"]]
    assert a.json("GET", "/v1/sandboxes?state=ended")["sandboxes"] == []
    assert len(paged(a, "/v1/sandboxes?state=running&template=python", "sandboxes")) == 2
    assert a.json("GET", "/v1/sandboxes?template=other")["sandboxes"] == []
    for _ in range(2):
        status, body, headers = a.request("DELETE", "/v1/sandboxes/" + small["id"])
        assert status == 204 and body == b"" and "Content-Length" not in headers
    ended = a.json("GET", "/v1/sandboxes/" + small["id"])
    has(ended, SANDBOX, {"end_reason", "ended_at"})
    assert ended["state"] == "ended" and ended["end_reason"] == "asked" and instant(ended["ended_at"]) > instant(ended["created_at"])
    assert [r["id"] for r in paged(a, "/v1/sandboxes?state=ended", "sandboxes")] == [small["id"]]
    refused(404, "not_found", a.request, "DELETE", "/v1/sandboxes/sbx-never")
    refused(409, "wrong_state", a.json, "POST", f"/v1/sandboxes/{small['id']}/timeout", {"timeout_s": 5})
    return s["id"], small["id"]


def kernels(a, s):
    first = a.json("GET", f"/v1/sandboxes/{s}/kernels")["kernels"]
    assert len(first) == 1 and set(first[0]) == KERNEL, first
    status, body, _ = a.request("POST", f"/v1/sandboxes/{s}/kernels", {})
    made = json.loads(body)
    assert status == 201 and set(made) == KERNEL and made["sandbox_id"] == s and made["language"] == "python", made
    assert made["state"] in ("starting", "idle") and made["execution_count"] == 0 and made["queue"] == []
    assert [k["id"] for k in paged(a, f"/v1/sandboxes/{s}/kernels", "kernels")] == [first[0]["id"], made["id"]]
    status, body, _ = a.request("POST", f"/v1/kernels/{made['id']}/restart")
    assert status == 200 and json.loads(body)["id"] == made["id"]
    assert a.request("POST", f"/v1/kernels/{made['id']}/interrupt", {})[0] == 204
    assert a.request("DELETE", f"/v1/kernels/{made['id']}")[0] == 204
    refused(404, "not_found", a.request, "DELETE", f"/v1/kernels/{made['id']}")


def lines(a, s, **spec):
    """The raw lines of a cell: ASCII, at most 1 MiB each, numbered by ones, one end at the end."""
    c, r = a.open("POST", f"/v1/sandboxes/{s}/execute", spec)
    with contextlib.closing(c):
        assert r.status == 200 and r.headers["Content-Type"] == "application/x-ndjson"
        raw = list(r)
    events = [json.loads(line) for line in raw]
    for line, e in zip(raw, events):
        assert line.isascii() and line.endswith(b"\n") and len(line) <= MIB and ("seq" in e) == (e["type"] != "keepalive")
    numbered = [e["seq"] for e in events if "seq" in e]
    assert numbered == list(range(1, len(numbered) + 1)) and [e["type"] for e in events].count("end") == 1
    end(events)
    return [e for e in events if e["type"] != "keepalive"]


def large_code(a, s):
    """Code of all the size that a body may have."""
    code = "x = '" + "a" * (MIB - 40) + "'\nprint(len(x))"
    body = json.dumps({"code": code})
    assert len(body) <= MIB
    seen = lines(a, s, code=code)
    assert text(seen) == f"{MIB - 40}\n", seen
    assert a.json("GET", "/v1/executions/" + seen[0]["execution_id"])["code"] == code


def one(events, kind):
    [e] = [e for e in events if e["type"] == kind]
    return e


def events(a, s):
    code = ("import sys\nfrom IPython.display import display\nprint('é\\u2028🐟')\nprint('err', file=sys.stderr)\n"
            f"display({{'image/png': '{PNG}', 'text/plain': 'dot'}}, raw=True, display_id='d1')\n6 * 7")
    seen = lines(a, s, code=code)
    # A stream comes in as many pieces as it likes.
    order = [kind for kind, _ in itertools.groupby(e["type"] for e in seen)]
    assert order == ["started", "stdout", "stderr", "display", "result", "end"], seen
    started, done = seen[0], seen[-1]
    assert set(started) == {"type", "seq", "execution_id", "execution_count"}, started
    assert text(seen) == "é\u2028🐟\n" and text(seen, "stderr") == "err\n"
    shown = one(seen, "display")
    assert shown["data"] == {"image/png": PNG, "text/plain": "dot"} and shown["display_id"] == "d1", shown
    result = one(seen, "result")
    assert result["data"]["text/plain"] == "42" and result["is_main_result"] is True
    assert set(done) == {"type", "seq", "status", "duration_ms"} and done["status"] == "ok" and done["duration_ms"] >= 0

    x = started["execution_id"]
    row = a.json("GET", "/v1/executions/" + x)
    has(row, EXECUTION)
    assert row["sandbox_id"] == s and row["code"] == code and row["status"] == "ok" and "reason" not in row
    assert instant(row["started_at"]) <= instant(row["ended_at"])
    assert [(o["n"], o["kind"]) for o in row["outputs"]] == [(1, "stdout"), (2, "stderr"), (3, "display"), (4, "result")], row
    for o in row["outputs"]:
        has(o, OUTPUT)
        assert o["truncated"] is False
    assert row["outputs"][0]["bytes"] == len("é\u2028🐟\n".encode()) and row["outputs"][2]["mime"] == "image/png"
    assert row["outputs"][2]["data"]["image/png"] == PNG
    for n, kind, length in ((1, "text/plain; charset=utf-8", 10), (3, "image/png", 70)):
        status, body, headers = a.request("GET", f"/v1/executions/{x}/outputs/{n}/full")
        assert (status, headers["Content-Type"], len(body)) == (200, kind, length), (status, headers["Content-Type"], len(body))
    for after in range(len(seen) + 1):
        assert list(a.events("GET", f"/v1/executions/{x}/stream?after={after}")) == seen[after:], after
    assert list(a.events("GET", f"/v1/executions/{x}/stream")) == seen

    seen = lines(a, s, code="def f():\n    raise ValueError('why\\n\\u00fc')\nf()")
    failed = one(seen, "error")
    assert failed["name"] == "ValueError" and failed["value"] == "why\nü" and all(isinstance(t, str) for t in failed["traceback"])
    assert end(seen)["status"] == "error" and "reason" not in end(seen)
    assert a.json("GET", "/v1/executions/" + seen[0]["execution_id"])["outputs"][0]["kind"] == "error"
    seen = lines(a, s, code="input('name? ')")
    assert one(seen, "error")["name"] == "StdinNotImplementedError"
    seen = lines(a, s, code="print('x' * 100_000)")
    cut = one(seen, "truncated")
    assert cut["stream"] == "stdout" and cut["bytes_total"] == 100_001 and 0 < cut["bytes_kept"] < 20_000, cut
    out = a.json("GET", "/v1/executions/" + seen[0]["execution_id"])["outputs"][0]
    assert out["truncated"] is True and out["bytes"] == 100_001
    assert end(lines(a, s, code="while True: pass", timeout_s=1))["status"] == "timeout"
    assert text(lines(a, s, code="import os; print(os.getcwd(), os.environ['A'])", env={"A": "b c"})) == "/home/user b c\n"
    for code, extra in (("import os; os._exit(3)", {"exit_code": 3}), ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", {"signal": "SIGSEGV"})):
        seen = lines(a, s, code=code)
        row = a.json("GET", "/v1/executions/" + seen[0]["execution_id"])
        assert end(seen)["status"] == row["status"] == "died" and extra.items() <= end(seen).items() and extra.items() <= row.items(), seen
        after = lines(a, s, code="1")
        assert one(after, "started")["kernel_restarted"] is True and one(after, "started")["execution_count"] == 1
        assert "kernel_restarted" not in one(lines(a, s, code="1"), "started")
    ids = [r["execution_id"] for r in paged(a, f"/v1/sandboxes/{s}/executions", "executions")]
    assert x in ids and len(ids) == len(set(ids))


def queue(a, s):
    """One at a time; an interrupt ends the one that runs, and keeps one that waits from ever starting."""
    running = a.events("POST", f"/v1/sandboxes/{s}/execute", {"code": "print('on')\nimport time; time.sleep(300)"})
    first = next(running)["execution_id"]
    assert next(running)["type"] == "stdout"
    waiting = [a.events("POST", f"/v1/sandboxes/{s}/execute", {"code": "print(2)"}) for _ in range(2)]
    heads = [next(w) for w in waiting]
    assert [set(h) for h in heads] == [{"type", "seq", "execution_id", "position"}] * 2 and [h["position"] for h in heads] == [1, 2], heads
    assert a.json("GET", f"/v1/sandboxes/{s}/kernels")["kernels"][0]["queue"] == [h["execution_id"] for h in heads]
    assert a.json("GET", "/v1/executions/" + heads[0]["execution_id"])["status"] == "queued"
    assert a.json("GET", "/v1/executions/" + first)["status"] == "running"
    refused(409, "wrong_state", a.request, "DELETE", "/v1/executions/" + first)
    for x in (heads[0]["execution_id"], first):
        assert a.request("POST", f"/v1/executions/{x}/interrupt")[0] == 204
    cancelled = list(waiting[0])
    assert [e["type"] for e in cancelled] == ["end"] and cancelled[0]["status"] == "cancelled", cancelled
    assert end(list(running))["status"] == "interrupted"
    assert end(list(waiting[1]))["status"] == "ok"
    row = a.json("GET", "/v1/executions/" + heads[0]["execution_id"])
    assert row["status"] == "cancelled" and row["started_at"] is None and row["outputs"] == [], row
    assert a.request("DELETE", "/v1/executions/" + first)[0] == 204
    row = a.json("GET", "/v1/executions/" + first)
    assert row["code"] is None and row["outputs"] == [] and row["status"] == "interrupted" and instant(row["started_at"]), row
    refused(404, "not_found", lambda: list(a.events("GET", f"/v1/executions/{first}/stream")))


def files(a, s):
    url = f"/v1/sandboxes/{s}/files"
    status, body, _ = a.request("PUT", url + "?path=a/b/c.txt", b"one")
    assert status == 201 and json.loads(body) == {"path": "/home/user/a/b/c.txt", "size": 3}, body
    assert a.request("PUT", url + "?path=/home/user/a/b/c.txt", b"two!")[0] == 200
    status, body, headers = a.request("GET", url + "?path=a/b/c.txt")
    assert (status, body, headers["Content-Length"]) == (200, b"two!", "4")
    a.execute(s, "import os; os.symlink('c.txt', 'a/b/link'); os.mkfifo('a/b/pipe'); os.chmod('a/b/c.txt', 0o640)")
    rows = {e["name"]: e for e in paged_files(a, url + "/list?path=a/b")}
    assert {n: e["type"] for n, e in rows.items()} == {"c.txt": "file", "link": "symlink", "pipe": "other"}, rows
    assert rows["c.txt"]["size"] == 4 and rows["c.txt"]["mode"] == 0o640 and rows["c.txt"]["path"] == "/home/user/a/b/c.txt", rows
    assert {e["name"]: e["type"] for e in a.json("GET", url + "/list?path=a")["entries"]} == {"b": "dir"}
    assert any(e["name"] == "a" for e in a.json("GET", url + "/list")["entries"])
    for method, path, status, code in (("GET", "a/none", 404, "no_such_file"), ("DELETE", "a/none", 404, "no_such_file"), ("GET", "a", 400, "is_a_directory"),
                                       ("PUT", "a", 400, "is_a_directory"), ("DELETE", "a", 400, "is_a_directory"), ("GET", "a/b/c.txt/d", 400, "bad_request")):
        refused(status, code, a.request, method, f"{url}?path={path}", b"x" if method == "PUT" else None)
    refused(404, "no_such_file", a.request, "GET", url + "/list?path=a/none")
    assert a.request("DELETE", url + "?path=a/b/c.txt")[0] == 204
    assert a.request("DELETE", url + "?path=a&recursive=1")[0] == 204
    refused(404, "no_such_file", a.request, "GET", url + "/list?path=a")


def paged_files(a, path):
    rows, cursor = [], ""
    while cursor is not None:
        page = a.json("GET", f"{path}&limit=2&cursor={cursor}")
        rows += page["entries"]
        cursor = page["next"]
    for e in rows:
        assert set(e) == ENTRY, e
        instant(e["mtime"])
    assert rows == a.json("GET", path)["entries"]
    return rows


def processes(a, s):
    def run(**spec):
        return list(a.events("POST", f"/v1/sandboxes/{s}/processes", spec))

    seen = run(cmd="pwd; echo err >&2; cat; exit 7", stdin="in\n")
    assert seen[0]["type"] == "started" and seen[0]["pid"] > 1
    assert text(seen) == "/home/user\nin\n" and text(seen, "stderr") == "err\n" and end(seen)["exit_code"] == 7 and end(seen)["duration_ms"] >= 0
    assert text(run(argv=["printenv", "A"], env={"A": "1 2"}, cwd="/tmp")) == "1 2\n"
    assert text(run(argv=["pwd"], cwd="/tmp")) == "/tmp\n"
    [raw] = [e for e in run(argv=["printf", r"\377\376"]) if e["type"] == "stdout"]
    assert raw["b64"] == "//4=" and "text" not in raw
    assert end(run(cmd="kill -9 $$"))["signal"] == "SIGKILL"
    killed = end(run(cmd="sleep 100", timeout_s=1))
    assert killed["signal"] == "SIGKILL" and killed["reason"] == "timeout", killed


def appliance(a):
    [template] = paged(a, "/v1/templates", "templates")
    has(template, {"name", "image", "built_at", "languages", "limits"})
    assert template["name"] == "python" and "python" in template["languages"], template
    stats = a.json("GET", "/v1/stats")
    has(stats, {"pool", "capacity", "sandboxes"})
    assert stats["sandboxes"]["running"] == len(a.json("GET", "/v1/sandboxes?state=running")["sandboxes"]), stats
    status, body, headers = a.request("HEAD", "/v1/templates")
    assert status == 200 and body == b"" and int(headers["Content-Length"]) > 0


def owners(a):
    me = a.json("GET", "/v1/me")
    has(me, {"id", "name", "admin"})
    status, body, _ = a.request("POST", "/v1/owners", {"name": "team ü"})
    owner = json.loads(body)
    assert status == 201 and owner["name"] == "team ü", owner
    status, body, _ = a.request("POST", f"/v1/owners/{owner['id']}/keys", {"name": "k", "expires_at": "2999-12-31T23:59:59Z"})
    key = json.loads(body)
    assert status == 201 and re.fullmatch(r"e2b_[0-9a-f]+", key["key"]), key
    theirs = {"X-API-KEY": key["key"], "Authorization": ""}
    assert a.json("GET", "/v1/me", headers=theirs)["id"] == owner["id"]
    for method, path in (("POST", "/v1/owners"), ("POST", f"/v1/owners/{owner['id']}/keys"), ("DELETE", "/v1/keys/" + key["id"])):
        refused(403, "forbidden", a.request, method, path, {"name": "x"} if method == "POST" else None, headers=theirs)
    assert a.request("DELETE", "/v1/keys/" + key["id"])[0] == 204
    refused(401, "unauthorized", a.json, "GET", "/v1/me", headers=theirs)
    assert key["key"] not in json.dumps(paged(a, f"/v1/owners/{owner['id']}/keys", "keys"))
    assert {owner["id"], me["id"]} == {o["id"] for o in paged(a, "/v1/owners", "owners")}


def methods(a):
    e = refused(405, "method_not_allowed", a.request, "PATCH", "/v1/sandboxes")
    assert "POST" in e.headers["Allow"]
    refused(404, "not_found", a.request, "GET", "/v1/none")
    refused(414, "uri_too_long", a.request, "GET", "/v1/sandboxes?cursor=" + "1" * 20000)


def ending(a, s):
    """The sandbox ends under its cells: each says so as its last line, and rows, outputs and events stay."""
    running = a.events("POST", f"/v1/sandboxes/{s}/execute", {"code": "print('kept')\nimport time; time.sleep(300)"})
    first = next(running)
    said = ""
    while said != "kept\n":  # its line's end may come by itself
        said += next(running).get("text", "")
    assert a.request("DELETE", "/v1/sandboxes/" + s)[0] == 204
    last = end(list(running))
    assert (last["status"], last["reason"]) == ("died", "asked"), last
    row = a.json("GET", "/v1/executions/" + first["execution_id"])
    assert (row["status"], row["reason"], row["outputs"][0]["text"]) == ("died", "asked", "kept\n"), row
    assert end(list(a.events("GET", f"/v1/executions/{first['execution_id']}/stream"))) == last
    assert a.request("GET", f"/v1/executions/{first['execution_id']}/outputs/1/full")[1] == b"kept\n"
    assert first["execution_id"] in [x["execution_id"] for x in a.json("GET", f"/v1/sandboxes/{s}/executions")["executions"]]
    assert a.json("GET", f"/v1/sandboxes/{s}/kernels")["kernels"] == []


def main():
    with Appliance() as a:
        keys(a)
        s, _ = sandboxes(a)
        bodies(a, s)
        for case in (kernels, events, large_code, queue, files, processes):
            case(a, s)
        for case in (appliance, owners, methods):
            case(a)
        ending(a, s)


main()
