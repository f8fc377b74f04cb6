#!/usr/bin/python3
"""Files come out as they went in, whatever their size and name, with bounded memory on both sides; a full disk and
a broken upload leave what was there; environment values arrive as they are."""
import contextlib
import hashlib
import http.client
import json
import os
import random
import re
import socket
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import Appliance, Refused, end, text  # noqa: E402

LARGE_MB = 200
PIECE = 1 << 20
# What one transfer may add to carreld: its pipe, its windows and buffers; far below the file.
HOST_GROWTH_MB = 24
GUEST_GROWTH_MB = 24
NAMES = ("a b", "a#b", "a%b", "a%20b", "a&b=c", "a+b", "'", '"', "a\nb", "\u00e9\u4f60\U0001f41f", "\\", "-rf", "a?b", "*", "$(true)",
         " ", "~", ";", "x" * 255, "deep/er/and/deeper", "\x01\x7f")


def quoted(path):
    return urllib.parse.quote(path, safe="")


def figure(a, name):
    return float(re.search(rf"^{name} (\S+)$", a.request("GET", "/metrics")[1].decode(), re.M).group(1))


def guest_figures(a, s):
    """Megabytes: most that the agent (process 1) ever held, and what the guest has free for programs."""
    code = ("import re\nread = lambda p: open(p).read()\n"
            "print(re.search(r'VmHWM:\\s+(\\d+)', read('/proc/1/status'))[1], "
            "re.search(r'MemAvailable:\\s+(\\d+)', read('/proc/meminfo'))[1])")
    peak, free = map(int, text(a.execute(s, code)).split())
    return peak / 1024, free / 1024


def sizes(a, s):
    for size in (0, 1, 4095, 4096, 65537):
        data = os.urandom(size)
        made = a.put(s, f"sized-{size}", data)
        assert made == {"path": f"/home/user/sized-{size}", "size": size}, made
        status, back, headers = a.request("GET", f"/v1/sandboxes/{s}/files?path=sized-{size}")
        assert status == 200 and back == data and int(headers["Content-Length"]) == size
        status, _, headers = a.request("HEAD", f"/v1/sandboxes/{s}/files?path=sized-{size}")
        assert status == 200 and int(headers["Content-Length"]) == size
        code = f"import hashlib\nprint(hashlib.sha256(open('sized-{size}', 'rb').read()).hexdigest())"
        assert text(a.execute(s, code)).strip() == hashlib.sha256(data).hexdigest()
    status, _, _ = a.request("PUT", f"/v1/sandboxes/{s}/files?path=sized-1", b"zz")
    assert status == 200 and a.get(s, "sized-1") == b"zz"
    a.put(s, "/tmp/absolute", b"there")
    assert a.get(s, "../../tmp/absolute") == b"there"


def names(a, s):
    a.execute(s, "import os; os.mkdir('names'); os.chdir('names')")
    for name in NAMES:
        data = name.encode()
        status, body, _ = a.request("PUT", f"/v1/sandboxes/{s}/files?path=" + quoted("names/" + name), data)
        assert status == 201 and json.loads(body)["path"] == "/home/user/names/" + name, body
        assert a.request("GET", f"/v1/sandboxes/{s}/files?path=" + quoted("names/" + name))[1] == data
    listed = a.json("GET", f"/v1/sandboxes/{s}/files/list?path=names")
    assert sorted(e["name"] for e in listed["entries"]) == sorted({n.split("/")[0] for n in NAMES}), listed
    inside = json.loads(text(a.execute(s, "import json; print(json.dumps(os.listdir()))")))
    assert sorted(inside) == sorted({n.split("/")[0] for n in NAMES}), inside
    seen, cursor = [], ""
    while cursor is not None:
        page = a.json("GET", f"/v1/sandboxes/{s}/files/list?path=names&limit=7&cursor=" + quoted(cursor))
        assert 0 < len(page["entries"]) <= 7
        seen += [e["name"] for e in page["entries"]]
        cursor = page["next"]
    assert sorted(seen) == sorted(inside)
    for name in NAMES[:-2]:
        a.request("DELETE", f"/v1/sandboxes/{s}/files?path=" + quoted("names/" + name))
    a.request("DELETE", f"/v1/sandboxes/{s}/files?path=names&recursive=1")
    try:
        a.json("GET", f"/v1/sandboxes/{s}/files/list?path=names")
        raise AssertionError("a deleted directory is listed")
    except Refused as e:
        assert e.status == 404
    a.execute(s, "os.chdir('/home/user')")
    # A name that is not UTF-8, made inside: listed somehow, never a failure.
    a.execute(s, "open(b'/home/user/bytes-\\xff', 'w').close()")
    assert any(e["name"].startswith("bytes-") for e in a.json("GET", f"/v1/sandboxes/{s}/files/list")["entries"])


def pieces(count):
    """The same pseudo-random bytes each time, a piece at a time."""
    rng = random.Random(3)
    return (rng.randbytes(PIECE) for _ in range(count))


def digest(stream):
    h = hashlib.sha256()
    for piece in stream:
        h.update(piece)
    return h.hexdigest()


def large(a, s):
    host = figure(a, "process_resident_memory_bytes") / 1e6
    agent, free = guest_figures(a, s)
    began = time.monotonic()
    c = http.client.HTTPConnection("127.0.0.1", a.port, timeout=300)
    with contextlib.closing(c):
        c.request("PUT", f"/v1/sandboxes/{s}/files?path=large.bin", pieces(LARGE_MB),
                  {"X-API-KEY": a.token, "Content-Length": str(LARGE_MB * PIECE)})
        r = c.getresponse()
        assert r.status == 201 and json.loads(r.read())["size"] == LARGE_MB * PIECE
    put_s = time.monotonic() - began
    most = [figure(a, "process_resident_memory_bytes") / 1e6]
    began = time.monotonic()
    c = http.client.HTTPConnection("127.0.0.1", a.port, timeout=300)
    with contextlib.closing(c):
        c.request("GET", f"/v1/sandboxes/{s}/files?path=large.bin", headers={"X-API-KEY": a.token})
        r = c.getresponse()
        assert int(r.headers["Content-Length"]) == LARGE_MB * PIECE
        got = hashlib.sha256()
        for n, piece in enumerate(iter(lambda: r.read(PIECE), b"")):
            got.update(piece)
            if n % 50 == 25:
                most.append(figure(a, "process_resident_memory_bytes") / 1e6)
    get_s = time.monotonic() - began
    assert got.hexdigest() == digest(pieces(LARGE_MB))
    agent_now, _ = guest_figures(a, s)
    print(f"{LARGE_MB} MB: in {put_s:.1f} s, out {get_s:.1f} s; carreld {host:.0f} -> {max(most):.0f} MB, "
          f"agent's peak {agent:.0f} -> {agent_now:.0f} MB")
    assert max(most) < host + HOST_GROWTH_MB, (host, most)
    assert agent_now < agent + GUEST_GROWTH_MB, (agent, agent_now)
    a.request("DELETE", f"/v1/sandboxes/{s}/files?path=large.bin")


def listing(a, s, path="."):
    return {e["name"]: e["size"] for e in a.json("GET", f"/v1/sandboxes/{s}/files/list?path=" + quoted(path))["entries"]}


def replacing(a, s):
    """A reader sees the old file or the new one, whole; an upload that breaks changes nothing and leaves nothing."""
    old, new = b"a" * 3_000_000, b"b" * 2_000_000
    a.put(s, "swap/file", old)
    stop, seen, failed = threading.Event(), set(), []

    def read():
        while not stop.is_set():
            data = a.get(s, "swap/file")
            if data not in (old, new):
                failed.append((len(data), set(data)))
            seen.add(data[:1])

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(3):
        a.put(s, "swap/file", new)
        a.put(s, "swap/file", old)
    stop.set()
    reader.join()
    assert not failed, failed
    for head in (b"Content-Length: 5000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n100000\r\n"):
        with socket.create_connection(("127.0.0.1", a.port)) as c:
            c.sendall(f"PUT /v1/sandboxes/{s}/files?path=swap/file HTTP/1.1\r\nHost: a\r\nX-API-KEY: {a.token}\r\n".encode()
                      + head + b"x" * 300_000)
            time.sleep(0.3)  # into the sandbox, before it breaks
    deadline = time.monotonic() + 20
    while figure(a, "carrel_streams"):
        assert time.monotonic() < deadline, "a broken upload holds its thread"
        time.sleep(0.1)
    assert a.get(s, "swap/file") == old
    assert listing(a, s, "swap") == {"file": len(old)}
    a.put(s, "swap/file", b"")
    assert a.get(s, "swap/file") == b""


def disk_full(a):
    s = a.create(limits={"disk_mb": 64})["id"]
    a.put(s, "kept", b"before")
    before = listing(a, s)
    for path in ("kept", "new", "made/too"):
        try:
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", a.port, timeout=120)) as c:
                c.request("PUT", f"/v1/sandboxes/{s}/files?path={path}", (b"x" * PIECE for _ in range(100)),
                          {"X-API-KEY": a.token, "Content-Length": str(100 * PIECE)})
                r = c.getresponse()
                status, error = r.status, json.loads(r.read())
        except (BrokenPipeError, ConnectionResetError):
            continue  # the refusal came while the body still ran, and the socket broke before it was read
        assert (status, error["code"]) == (507, "disk_full") and error["message"].endswith("."), (status, error)
    assert a.get(s, "kept") == b"before"
    now = listing(a, s)
    now.pop("made", None)  # parents may stay, empty
    assert now == before, (before, now)
    # By curl's way too, which reads the answer while it sends.
    status = os.popen(f"head -c 100M /dev/zero | curl -s -o /dev/null -w '%{{http_code}}' -H 'X-API-KEY: {a.token}' -T - "
                      f"'http://127.0.0.1:{a.port}/v1/sandboxes/{s}/files?path=again'").read()
    assert status == "507", status
    a.put(s, "small", b"fits again")
    assert a.get(s, "small") == b"fits again"
    assert end(a.execute(s, "1"))["status"] == "ok"
    a.kill(s)


def environment(a):
    env = {"QUOTES": "a'b\"c`d", "LINES": "one\ntwo\r\nthree\n", "WORLD": "Zürich 你好 🐟", "SHELL_LIKE": "$(touch x); $HOME && *", "EMPTY": "",
           "BACK": "a\\nb\\", "EQUALS": "a=b=c", "SPACE D": " x ", "TAB": "\t\x01\x7f", "LONG": "y" * 30000}
    s = a.create(env=env)["id"]
    code = "import json, os\nprint(json.dumps(dict(os.environ)))"
    got = json.loads(text(a.execute(s, code)))
    assert {k: got.get(k) for k in env} == env, {k: (got.get(k), v) for k, v in env.items() if got.get(k) != v}
    child = json.loads(text(a.execute(s, "import subprocess, sys\nprint(subprocess.check_output([sys.executable, '-c', "
                                         f"{code!r}], text=True))")))
    assert {k: child.get(k) for k in env} == env
    own = {"WORLD": "only\nhere 'ß'", "CELL": "\"x\""}
    got = json.loads(text(a.execute(s, code, env=own)))
    assert {k: got.get(k) for k in own} == own and got["QUOTES"] == env["QUOTES"]
    assert json.loads(text(a.execute(s, code)))["WORLD"] == env["WORLD"]  # a cell's own values end with it
    events = list(a.events("POST", f"/v1/sandboxes/{s}/processes", {"argv": ["/usr/bin/python3", "-c", code], "env": own}))
    got = json.loads(text(events))
    assert {k: got.get(k) for k in own} == own and got["LINES"] == env["LINES"]
    events = list(a.events("POST", f"/v1/sandboxes/{s}/processes", {"cmd": "printf '%s' \"$QUOTES$LINES$WORLD\"", "env": {}}))
    assert text(events) == env["QUOTES"] + env["LINES"] + env["WORLD"], events
    a.kill(s)
    # As much as is taken at all, in bytes that JSON writes longest.
    most = {"N": "\x01" * 9_000, "M": "\U0001f41f" * 1_000}
    assert 59_000 > len(json.dumps(most, ensure_ascii=False).encode()) > 57_000
    s = a.create(env=most)["id"]
    for events in (a.execute(s, code), list(a.events("POST", f"/v1/sandboxes/{s}/processes", {"argv": ["/usr/bin/python3", "-c", code], "env": {"A": "y" * 59_000}}))):
        got = json.loads(text(events))
        assert {k: got.get(k) for k in most} == most
    assert a.json("POST", f"/v1/sandboxes/{s}/kernels", {})["state"] in ("starting", "idle")
    a.kill(s)


def main():
    with Appliance() as a:
        s = a.create(timeout_s=3600)["id"]
        for case, args in ((sizes, (a, s)), (names, (a, s)), (replacing, (a, s)), (large, (a, s)), (disk_full, (a,)), (environment, (a,))):
            began = time.monotonic()
            case(*args)
            print(f"{case.__name__} {time.monotonic() - began:.1f} s", flush=True)


main()
