#!/usr/bin/python3
"""The front on real nginx: errors, bodies, bounds, hang-ups, stalls, restarts.

usage: front_nginx.py [SANITIZER]
"""
import contextlib
import hashlib
import http.client
import json
import os
import re
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import front  # noqa: E402

# Promised times: the best of several must keep them, a loaded host may spoil one.
HANGUP_S = 0.2
ANSWER_S = 0.1
PATIENCE_S = 10


def until(true, seconds, what):
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < seconds, f"after {seconds} s: {what}"
        time.sleep(0.01)
    return time.monotonic() - began


def timed(call):
    began = time.monotonic()
    call()
    return time.monotonic() - began


def check_error(answer, status, code, field=None):
    got, body, headers = answer
    assert got == status, (got, body)
    assert headers["Content-Type"] == "application/json", headers["Content-Type"]
    assert body["code"] == code and body["message"], body
    assert body.get("field") == field, body
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    if status in (429, 503):
        assert int(headers["Retry-After"]) > 0
    return headers


def test_keys(a):
    h = check_error(a.call("GET", "/v1/me", key=None), 401, "unauthorized")
    assert h["WWW-Authenticate"].startswith("Bearer")
    check_error(a.call("GET", "/v1/me", key="e2b_wrong"), 401, "unauthorized")
    check_error(a.call("GET", "/v1/me", key="x" * 5000), 401, "unauthorized")
    status, me, _ = a.call("GET", "/v1/me", key=None, headers={"X-API-KEY": a.key})
    assert status == 200 and me["admin"] is True and me["quota"]["sandboxes"] > 0, me
    assert a.call("GET", "/healthz", key=None)[0] == 200


def test_routes(a):
    check_error(a.call("GET", "/v1/nothing"), 404, "not_found")
    check_error(a.call("GET", "/nothing", key=None), 404, "not_found")
    check_error(a.call("GET", "/v1/sandboxes/sb-none"), 404, "not_found")
    check_error(a.call("GET", "/v1/sandboxes/..%2f..%2fetc"), 404, "not_found")
    # Spelt so that nginx and carreld may sort them differently: never a thread of the wrong pool.
    for path in ("/v1/sandboxes/sb-0//execute", "/v1/sandboxes/./sb-0/execute", "/v1/sandboxes/x/../sb-0/files"):
        check_error(a.call("POST", path, {}), 404, "not_found")
    h = check_error(a.call("PATCH", "/v1/sandboxes", {}), 405, "method_not_allowed")
    assert h["Allow"] == "POST, GET, HEAD", h["Allow"]
    check_error(a.call("GET", "/v1/sandboxes/sb-0/execute"), 405, "method_not_allowed")
    h = check_error(a.call("POST", "/index.html", b"x", key=None), 405, "method_not_allowed")
    assert h["Allow"]
    check_error(a.call("POST", "/v1/sandboxes/sb-0/pause", {}), 409, "not_supported")
    check_error(a.call("GET", "/v1/kernels/k-0/connection"), 404, "not_found")
    check_error(a.call("GET", "/v1/kernels/k-0/connection?transport=ip"), 400, "bad_query", "transport")
    status, page, h = a.call("GET", "/", key=None)
    assert status == 200 and b"page" in page and "default-src 'self'" in h["Content-Security-Policy"]
    c, r = a.open("HEAD", "/v1/me")
    with contextlib.closing(c):
        assert r.status == 200 and int(r.headers["Content-Length"]) > 0 and not r.read()


def test_nginx_errors(a):
    def raw(data, status, code):
        got, head, body = a.raw(data)
        assert got == status and "application/json" in head, (head, body)
        assert json.loads(body)["code"] == code, body

    raw(b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400, "bad_request")
    raw(b"G\x01T / HTTP/1.1\r\n\r\n", 400, "bad_request")
    raw(b"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad_request")
    raw(b"GET /v1/me HTTP/1.1\r\nConnection: close\r\n\r\n", 400, "bad_request")  # no Host
    raw(b"GET /v1/me HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 70000 + b"\r\n\r\n", 400, "bad_request")
    raw(b"GET /" + b"y" * 70000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414, "uri_too_long")
    raw(b"GET /v1/sandboxes/%ff HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 400, "bad_path")
    raw(b"GET /v1/me HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: rot13\r\n\r\n", 400, "bad_request")
    raw(b"GET /v1/me HTTP/3.7\r\nHost: a\r\n\r\n", 400, "bad_request")
    big = json.dumps({"metadata": {"x": "y" * (1 << 20)}}).encode()
    check_error(a.call("POST", "/v1/sandboxes", big), 413, "body_too_large")
    pieces = [big[i:i + 50000] for i in range(0, len(big), 50000)]
    check_error(a.call("POST", "/v1/sandboxes", iter(pieces), chunked=True,
                       headers={"Transfer-Encoding": "chunked"}), 413, "body_too_large")
    check_error(a.call("POST", "/v1/sandboxes/sb-0/pause", {"x": "y" * 2000}), 413, "body_too_large")


def test_bad_bodies(a):
    before = a.call("GET", "/v1/sandboxes")[1]
    for body, code, field in (
            (b"{", "bad_json", None), (b"[]", "bad_json", None), (b'{"a":1}{', "bad_json", None),
            (b'{"metadata":' + b'{"a":' * 40 + b"1" + b"}" * 41, "too_deep", None),
            (b'{"template":"\xff"}', "bad_utf8", None), (b'{"template":"a\\u0000"}', "bad_json", None),
            (b'{"engine":"auto","engine":"auto"}', "bad_json", None),
            (b'{"colour":1}', "unknown_field", "colour"), (b'{"template":1}', "wrong_type", "template"),
            (b'{"template":"nix"}', "unknown_template", "template"), (b'{"engine":"xen"}', "out_of_range", "engine"),
            (b'{"timeout_s":0}', "out_of_range", "timeout_s"), (b'{"timeout_s":-5}', "out_of_range", "timeout_s"),
            (b'{"timeout_s":1.5}', "wrong_type", "timeout_s"), (b'{"timeout_s":86401}', "out_of_range", "timeout_s"),
            (b'{"timeout_s":1e99}', "wrong_type", "timeout_s"),
            (b'{"env":{"A=B":"c"}}', "bad_env", "env.A=B"), (b'{"env":{"A":1}}', "wrong_type", "env.A"),
            (b'{"limits":{"memory_mb":255}}', "out_of_range", "limits.memory_mb"),
            (b'{"limits":{"cpus":0.01}}', "out_of_range", "limits.cpus"),
            (b'{"limits":{"disk_mb":1000000}}', "out_of_range", "limits.disk_mb"),
            (b'{"limits":{"gpus":1}}', "unknown_field", "limits.gpus")):
        check_error(a.call("POST", "/v1/sandboxes", body), 400, code, field)
    for query, field in (("limit=0", "limit"), ("limit=1001", "limit"), ("limit=x", "limit"), ("state=gone", "state"),
                         ("limit=1&limit=2", "limit"), ("cursor=%21", "cursor")):
        got = a.call("GET", "/v1/sandboxes?" + query)
        assert got[0] == 400 and got[1]["field"] == field, (query, got)
    for query in ("a=%00", "a=%ff", "a=%4"):
        check_error(a.call("GET", "/v1/sandboxes?" + query), 400, "bad_query")
    assert a.call("GET", "/v1/sandboxes?colour=blue")[0] == 200
    assert a.call("GET", "/v1/sandboxes")[1] == before


def test_sandbox(a):
    status, s, _ = a.call("POST", "/v1/sandboxes", {"metadata": {"who": "hé"}})
    assert status == 201 and s["state"] == "running" and s["metadata"] == {"who": "hé"}, s
    url = "/v1/sandboxes/" + s["id"]
    assert a.call("GET", url)[1]["id"] == s["id"]
    check_error(a.call("POST", url + "/timeout", {}), 400, "missing_field", "timeout_s")
    assert a.call("POST", url + "/timeout", {"timeout_s": 60})[0] == 200
    # A body in chunks has no length anywhere.
    status, _, _ = a.call("POST", url + "/timeout", iter([b'{"time', b'out_s":', b"77}"]), chunked=True,
                          headers={"Transfer-Encoding": "chunked"})
    assert status == 200
    assert a.call("DELETE", url)[0] == 204
    assert a.call("DELETE", url)[0] == 204
    assert a.call("GET", url)[1]["state"] == "ended"


def lines(a, method, path, body=None):
    c, r = a.open(method, path, body)
    with contextlib.closing(c):
        assert r.status == 200 and r.headers["Content-Type"] == "application/x-ndjson", (r.status, r.read())
        return [json.loads(line) for line in r]


def test_executions(a, url):
    check_error(a.call("POST", url + "/execute", {}), 400, "missing_field", "code")
    check_error(a.call("POST", "/v1/sandboxes/sb-none/execute", {"code": ""}), 404, "not_found")
    events = lines(a, "POST", url + "/execute", {"code": "lines 100"})
    assert [e["seq"] for e in events] == list(range(1, 103)) and events[-1]["type"] == "end"
    x = "/v1/executions/" + events[0]["execution_id"]
    until(lambda: a.call("GET", x)[1]["status"] == "ok", PATIENCE_S, "the row is not final")
    assert lines(a, "GET", x + "/stream?after=100") == events[100:]
    assert lines(a, "GET", x + "/stream") == events
    assert lines(a, "GET", x + "/stream?after=5000") == []
    check_error(a.call("GET", x + "/stream?after=-1"), 400, "wrong_type", "after")
    check_error(a.call("GET", x + "/outputs/1/full"), 404, "not_found")
    assert len(a.call("GET", url + "/executions")[1]["executions"]) == 1
    # A log without its end event gives a body without one: it failed, and shows it.
    got = [e["type"] for e in lines(a, "POST", url + "/execute", {"code": "broken"})]
    assert got == ["started"], got


def test_live(a, url):
    """Lines come when they happen, silence is filled, interrupt ends, the cell outlives its client."""
    c, r = a.open("POST", url + "/execute", {"code": "silent"})
    began = time.monotonic()
    started = json.loads(r.readline())
    assert started["type"] == "started"
    x = "/v1/executions/" + started["execution_id"]
    assert json.loads(r.readline()) == {"type": "keepalive"}
    assert time.monotonic() - began > 4
    c2, r2 = a.open("GET", x + "/stream?after=0")
    assert json.loads(r2.readline()) == started
    c.close()
    r.close()
    assert a.call("GET", x)[1]["status"] == "running"
    assert a.call("POST", x + "/interrupt", {})[0] == 204
    assert json.loads(r2.readline())["status"] == "interrupted"
    c2.close()


def silent(a, url):
    """A stream that says nothing, as a socket that can be closed at once."""
    c, r = a.open("POST", url + "/execute", {"code": "silent"})
    r.readline()
    return c, r


def hang_up(stream):
    stream[1].close()
    stream[0].close()


def test_pool(a, url):
    """All streams taken: 503 at once, short requests answer, a hang-up frees its thread within 200 ms."""
    streams = [silent(a, url) for _ in range(front.STREAMS)]
    assert a.streams_open() == front.STREAMS
    for method, path, body in (("POST", url + "/execute", {"code": "silent"}), ("GET", url + "/files?path=a", None),
                               ("PUT", url + "/files?path=a", b"x" * 500000)):
        check_error(a.call(method, path, body), 503, "busy")
    def health():
        assert a.call("GET", "/healthz", key=None)[0] == 200

    best = min(timed(health) for _ in range(10))
    assert best < ANSWER_S, f"/healthz took {best:.3f} s"
    best = PATIENCE_S
    while streams:
        hang_up(streams.pop())
        best = min(best, until(lambda: a.streams_open() == len(streams), PATIENCE_S, "a closed client holds its thread"))
    assert best < HANGUP_S, f"a hang-up was seen after {best:.3f} s"


def test_process(a, url):
    check_error(a.call("POST", url + "/processes", {}), 400, "missing_field", "argv")
    check_error(a.call("POST", url + "/processes", {"cmd": "a", "argv": ["a"]}), 400, "conflicting_fields", "argv")
    events = lines(a, "POST", url + "/processes", {"argv": ["echo"], "stdin": "hé\n"})
    assert [e["type"] for e in events] == ["started", "stdout", "end"] and events[1]["text"] == "hé\n"
    assert min(hang_up_process(a, url) for _ in range(3)) < HANGUP_S


def hang_up_process(a, url):
    """Seconds from the client's close to the core's knowing of it."""
    body = b'{"argv":["sleep"]}'
    # The head waits for the first line or keepalive, so the socket is opened by hand.
    with socket.create_connection(("127.0.0.1", a.port)) as s:
        s.sendall(f"POST {url}/processes HTTP/1.1\r\nHost: a\r\nX-API-KEY: {a.key}\r\nContent-Length: {len(body)}\r\n\r\n"
                  .encode() + body)
        until(lambda: a.streams_open() == 1, PATIENCE_S, "the process did not start")
        closed = time.time()
    until(lambda: a.streams_open() == 0, PATIENCE_S, "the closed client was not seen")
    return a.call("GET", "/v1/stats")[1]["gone_ms"] / 1000 - closed


def test_files(a, url):
    check_error(a.call("PUT", url + "/files", b"x"), 400, "missing_field", "path")
    check_error(a.call("GET", url + "/files?path=none"), 404, "no_such_file")
    check_error(a.call("PUT", url + "/files?path=dir", b"x"), 400, "is_a_directory")
    for size in (0, 1, 4095, 4096, 65537, 3 << 20):
        data = os.urandom(size)
        status, body, _ = a.call("PUT", url + "/files?path=a%23%20%25%0A", data)
        assert status == (201 if size == 0 else 200) and body["size"] == size, (status, body)
        status, back, h = a.call("GET", url + "/files?path=a%23%20%25%0A")
        assert status == 200 and int(h["Content-Length"]) == size and back == data
        c, r = a.open("HEAD", url + "/files?path=a%23%20%25%0A")
        with contextlib.closing(c):
            assert r.status == 200 and int(r.headers["Content-Length"]) == size and not r.read()
    pieces = [os.urandom(70000) for _ in range(40)]
    status, body, _ = a.call("PUT", url + "/files?path=chunked", iter(pieces), chunked=True,
                             headers={"Transfer-Encoding": "chunked"})
    assert status == 201 and body["size"] == 40 * 70000
    _, back, _ = a.call("GET", url + "/files?path=chunked")
    assert hashlib.sha256(back).digest() == hashlib.sha256(b"".join(pieces)).digest()
    status, listing, _ = a.call("GET", url + "/files/list")
    assert {e["name"] for e in listing["entries"]} == {"a# %\n", "chunked"}
    assert a.call("DELETE", url + "/files?path=chunked")[0] == 204
    check_error(a.call("DELETE", url + "/files?path=chunked"), 404, "no_such_file")


def test_broken_transfers(a, url):
    # Longer than the JSON bound, so it was streamed; the sandbox's reason comes through while the body still runs.
    check_error(a.call("PUT", url + "/files?path=full", b"x" * (2 << 20)), 507, "disk_full")
    a.call("PUT", url + "/files?path=kept", b"before")
    for head in (b"Content-Length: 1000000\r\n\r\n" + b"x" * 5000,
                 b"Transfer-Encoding: chunked\r\n\r\n1000\r\n" + b"x" * 0x1000 + b"\r\n"):
        with socket.create_connection(("127.0.0.1", a.port)) as s:
            s.sendall(f"PUT {url}/files?path=kept HTTP/1.1\r\nHost: a\r\nX-API-KEY: {a.key}\r\n".encode() + head)
            until(lambda: a.streams_open() == 1, PATIENCE_S, "the upload did not start")
        until(lambda: a.streams_open() == 0, PATIENCE_S, "a broken upload holds its thread")
        assert a.call("GET", url + "/files?path=kept")[1] == b"before"
    # A file that turns out shorter than announced must not look whole.
    a.call("PUT", url + "/files?path=short", b"x" * 100000)
    try:
        got = a.call("GET", url + "/files?path=short")
        raise AssertionError(f"a short file looked whole: {got[0]}, {len(got[1])} bytes")
    except http.client.IncompleteRead as e:
        assert len(e.partial) <= 100000


def test_slow_reader(a, url):
    """A client that reads nothing loses its thread after the stall time, not later."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.connect(("127.0.0.1", a.port))
    body = b'{"code":"flood"}'
    s.sendall(f"POST {url}/execute HTTP/1.1\r\nHost: a\r\nX-API-KEY: {a.key}\r\nContent-Length: {len(body)}\r\n\r\n"
              .encode() + body)
    until(lambda: a.streams_open() == 1, PATIENCE_S, "the flood did not start")
    took = until(lambda: a.streams_open() == 0, front.STALL_S + PATIENCE_S, "a reader that takes nothing holds its thread")
    assert took > front.STALL_S * 0.5
    # What it finds when it reads on must not look like a whole body.
    s.settimeout(10)
    tail = b""
    with contextlib.suppress(ConnectionError):
        while piece := s.recv(1 << 16):
            tail = (tail + piece)[-64:]
    assert tail and not tail.endswith(b"0\r\n\r\n"), tail
    s.close()
    listing = a.call("GET", url + "/executions?limit=1")[1]["executions"]
    a.call("POST", f"/v1/executions/{listing[0]['execution_id']}/interrupt", {})


def test_restart(a, url):
    """carreld goes under a stream: the body breaks; nginx says 502 in JSON until it is back."""
    c, r = a.open("POST", url + "/execute", {"code": "silent"})
    r.readline()
    assert a.stop("carreld", signal.SIGTERM) == 0
    try:
        rest = r.read()
        raise AssertionError(f"a cut stream ended cleanly with {rest!r}")
    except (http.client.IncompleteRead, ConnectionError):
        pass
    c.close()
    h = check_error(a.call("GET", "/healthz", key=None), 502, "restarting")
    assert h["Retry-After"] == "1"
    a.start_carreld()
    a.wait_health()
    a.parts["carreld"].kill()
    a.parts["carreld"].wait()
    check_error(a.call("GET", "/v1/me"), 502, "restarting")
    a.start_carreld()
    a.wait_health()
    assert a.call("GET", url)[0] == 200


def test_logs(a):
    time.sleep(1.2)  # nginx writes its log once a second
    with open(a.path("nginx", "access.log"), encoding="utf-8") as f:
        log = f.read()
    with open(a.path("nginx", "error.log"), encoding="utf-8") as f:
        errors = f.read()
    assert re.search(r" PUT /v1/sandboxes/[^ ]+/files 201 ", log), log[-2000:]
    assert "?" not in log and "path=" not in log and "path=" not in errors, errors
    assert a.key not in log and a.key not in errors


def main():
    with front.Front(*sys.argv[1:]) as a:
        url = "/v1/sandboxes/" + a.call("POST", "/v1/sandboxes", {})[1]["id"]
        for name, test in list(globals().items()):
            if name.startswith("test_"):
                began = time.monotonic()
                test(*(a, url)[:test.__code__.co_argcount])
                print(f"{name} {time.monotonic() - began:.2f} s")


main()
