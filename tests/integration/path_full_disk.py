#!/usr/bin/python3
"""The disk under STATE fills while a cell prints: the sandbox has ended, with the reason, for everyone who
asks; a file that the host has no room for is told so; with room again the ends are stored, and outlive a
restart."""
import contextlib
import http.client
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from appliance import Appliance, Refused, skip, until  # noqa: E402

SIZE = "1500m"  # the snapshot, one sandbox's disk, and a little
PIECE = 1 << 20


def fill(state):
    """All that is free, to the last block; returns the file."""
    path = os.path.join(state, "ballast")
    with open(path, "wb", buffering=0) as f:
        for size in (PIECE, 4096):
            with contextlib.suppress(OSError):
                while True:
                    f.write(b"x" * size)
    return path


def stream_of(a, x):
    # Cut short it may end inside a line.
    with contextlib.suppress(http.client.IncompleteRead, ValueError):
        return list(a.events("GET", f"/v1/executions/{x}/stream"))
    return []


def put_refused(a, s):
    """What a PUT of more than the host has room for is told."""
    try:
        a.put(s, "large", b"y" * (64 << 20))
    except Refused as e:
        assert e.status == 507 and e.error["code"] == "disk_full", e
        assert "host" in e.error["message"], e
        return
    raise AssertionError("the file was taken")


def cell_under_a_full_disk(a):
    s = a.create(limits={"disk_mb": 64})["id"]
    code = "import time\nfor i in range(100000):\n    print(i, 'x' * 2000)\n    time.sleep(0.01)"
    events = a.events("POST", f"/v1/sandboxes/{s}/execute", {"code": code})
    started = next(events)
    assert started["type"] == "started", started
    next(events)
    ballast = fill(a.state)
    with contextlib.suppress(http.client.IncompleteRead, ValueError):
        for event in events:
            # It cannot be stored now; with what its sandbox left behind, it may be.
            assert event["type"] != "end" or event["reason"] == "host-disk-full", event
    x = started["execution_id"]

    def told():
        sandbox = a.json("GET", f"/v1/sandboxes/{s}")
        return sandbox["state"] == "ended" and sandbox["end_reason"] == "host-disk-full"
    until(told)
    until(lambda: a.json("GET", f"/v1/executions/{x}")["status"] == "died")
    assert a.json("GET", f"/v1/executions/{x}")["reason"] == "host-disk-full"
    assert s not in [each["id"] for each in a.json("GET", "/v1/sandboxes")["sandboxes"]]
    os.unlink(ballast)
    until(lambda: (stream_of(a, x) or [{}])[-1].get("type") == "end")
    events = stream_of(a, x)
    assert [e["seq"] for e in events if "seq" in e] == list(range(1, len(events) + 1)), events[-3:]
    assert events[-1]["reason"] == "host-disk-full", events[-1]
    return s, x


def main():
    if os.geteuid() != 0:
        skip("an appliance needs root")
    state = tempfile.mkdtemp(prefix="carrel-test-full-")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0755", "none", state], check=True)
    try:
        a = Appliance(state=state)
        a.start()
        try:
            s = a.create()["id"]
            ballast = fill(state)
            put_refused(a, s)
            os.unlink(ballast)
            a.kill(s)
            s, x = cell_under_a_full_disk(a)
        finally:
            a.stop()
        a.start()
        try:
            sandbox = a.json("GET", f"/v1/sandboxes/{s}")
            assert (sandbox["state"], sandbox["end_reason"]) == ("ended", "host-disk-full"), sandbox
            assert stream_of(a, x)[-1]["type"] == "end"
        finally:
            a.stop()
    except BaseException:
        sys.stderr.write(a.tail())
        raise
    finally:
        subprocess.run(["umount", state], check=True)
        os.rmdir(state)


if __name__ == "__main__":
    main()
