#!/usr/bin/python3
"""Fork and named snapshots: copies that are whole, of themselves, and independent.

usage: life_fork.py [PART…]   (all parts without)
"""
import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import Appliance, Refused, end, refused, run, text  # noqa: E402

COPIES = 3
WHO = ("import os, random, uuid, time\n"
       "print(os.uname().nodename, open('/proc/sys/kernel/random/boot_id').read().strip(), open('/etc/machine-id').read().strip(),\n"
       "      random.random(), uuid.uuid4(), os.urandom(8).hex(), abs(time.time() - {now}) < 5)")


def fork(a, s, **body):
    status, data, _ = a.request("POST", f"/v1/sandboxes/{s}/fork", body)
    assert status == 201
    made = json.loads(data)["sandboxes"]
    a.created = a.created | {m["id"] for m in made if "id" in m}
    return made


def identities_differ(a, boxes):
    seen = [run(a, s, WHO.format(now=time.time())).split() for s in boxes]
    for i in range(6):
        assert len({who[i] for who in seen}) == len(boxes), (i, seen)
    assert all(who[0] == s and who[6] == "True" for who, s in zip(seen, boxes)), seen


def whole(a, s, x):
    assert run(a, s, "print(x, len(blob), open('f', 'rb').read() == blob, os.environ['A'])") == f"{x} {4 << 20} True 1\n"


def begin(a):
    s = a.create(timeout_s=600, env={"A": "1"}, metadata={"m": 1}, limits={"memory_mb": 900, "cpus": 0.5, "disk_mb": 800})["id"]
    run(a, s, "import os\nx = 7\nblob = os.urandom(4 << 20)\nopen('f', 'wb').write(blob)")
    return s


def independent(a, boxes):
    """What one does, no other sees."""
    for i, s in enumerate(boxes):
        run(a, s, f"x = {i}; open('own', 'w').write('{i}'); blob = bytes(4 << 20); open('f', 'wb').write(blob)")
    for i, s in enumerate(boxes):
        assert run(a, s, "print(x, open('own').read(), open('f', 'rb').read() == blob)") == f"{i} {i} True\n"


# --- parts ---

def running(a):
    s = begin(a)
    k = a.json("POST", f"/v1/sandboxes/{s}/kernels", {"language": "python"})["id"]
    run(a, s, "y = 'second'", kernel_id=k)
    before = a.json("GET", f"/v1/sandboxes/{s}")
    made = fork(a, s, count=COPIES, timeout_s=500)
    assert len(made) == COPIES and a.json("GET", f"/v1/sandboxes/{s}") == before
    for m in made:
        assert m["state"] == "running" and m["started"] == "fork" and m["id"] != s, m
        assert all(m[f] == before[f] for f in ("template", "image", "engine", "limits", "metadata")), m
    boxes = [s] + [m["id"] for m in made]
    identities_differ(a, boxes)
    ids = set()
    for box in boxes:
        whole(a, box, 7)
        kernels = a.json("GET", f"/v1/sandboxes/{box}/kernels")["kernels"]
        assert len(kernels) == 2, kernels
        ids |= {q["id"] for q in kernels}
        assert run(a, box, "print(y)", kernel_id=kernels[1]["id"]) == "second\n"
    assert len(ids) == 2 * len(boxes)
    independent(a, boxes)
    # A copy of a copy; and copies live on without their original.
    [again] = fork(a, boxes[1])
    assert run(a, again["id"], "print(x)") == "1\n"
    a.kill(s)
    # Paused and resumed, a copy is the copy.
    a.json("POST", f"/v1/sandboxes/{boxes[2]}/pause", {})
    a.json("POST", f"/v1/sandboxes/{boxes[2]}/resume", {})
    kernels = a.json("GET", f"/v1/sandboxes/{boxes[2]}/kernels")["kernels"]
    assert run(a, boxes[2], "print(x, open('own').read())") == "2 2\n"
    assert run(a, boxes[2], "print(y)", kernel_id=kernels[1]["id"]) == "second\n"
    for box in boxes[1:] + [again["id"]]:
        a.kill(box)


def paused(a):
    s = begin(a)
    a.json("POST", f"/v1/sandboxes/{s}/pause", {})
    made = fork(a, s, count=2)
    assert a.json("GET", f"/v1/sandboxes/{s}")["state"] == "paused"
    a.json("POST", f"/v1/sandboxes/{s}/resume", {})
    boxes = [s] + [m["id"] for m in made]
    for box in boxes:
        whole(a, box, 7)
    identities_differ(a, boxes)
    independent(a, boxes)
    for box in boxes:
        a.kill(box)


def busy(a):
    """A cell runs while its sandbox is copied: in the original it goes on without a line lost; a copy takes code once its
    own, which nobody hears, is over. Processes go on in the original and are ended in copies."""
    s = begin(a)
    seen, out = [], []
    cell = threading.Thread(target=lambda: seen.extend(a.execute(s, "import time\nfor i in range(50):\n    print(i)\n    time.sleep(0.1)")))
    reader = threading.Thread(target=lambda: out.extend(a.events("POST", f"/v1/sandboxes/{s}/processes",
                                                                  {"argv": ["sleep", "6.4321"]})))
    cell.start()
    reader.start()
    deadline = time.monotonic() + 30
    while not ("busy" == a.json("GET", f"/v1/sandboxes/{s}/kernels")["kernels"][0]["state"] and out):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.7)
    [copy] = fork(a, s)
    count = ("import os\nprint(sum('sleep\\0006.4321' in open(f'/proc/{p}/cmdline').read() for p in os.listdir('/proc') if p.isdigit()"
             " and os.path.exists(f'/proc/{p}/cmdline')), i)")
    assert run(a, copy["id"], count) == "0 49\n"
    cell.join()
    reader.join()
    assert text(seen) == "".join(f"{i}\n" for i in range(50)) and end(seen)["status"] == "ok", seen[-2:]
    assert end(out)["exit_code"] == 0, out
    a.kill(copy["id"])
    a.kill(s)


def failures():
    """Each copy fails by itself; a quota that is reached is no reason for a half-made one."""
    with Appliance(CARRELD_OPTIONS="--sandboxes-per-owner 3") as a:
        s = begin(a)
        made = fork(a, s, count=4)
        assert ["error" in m for m in made] == [False, False, True, True], made
        assert all(m["error"]["code"] == "quota" and m["error"]["message"] for m in made[2:]), made
        assert len(a.json("GET", "/v1/sandboxes")["sandboxes"]) == 3
        for count in (0, 17):
            refused(400, "out_of_range", a.json, "POST", f"/v1/sandboxes/{s}/fork", {"count": count})
        whole(a, made[0]["id"], 7)
        assert os.listdir(os.path.join(a.state, "snapshots")) == [] and os.listdir(os.path.join(a.state, "sets")) == []


def snapshots(a):
    s = begin(a)
    first = a.json("POST", f"/v1/sandboxes/{s}/snapshots", {"name": "before"})
    assert first["name"] == "before" and first["sandbox_id"] == s and first["bytes"] > 4 << 20 and first["limits"]["memory_mb"] == 900, first
    run(a, s, "x = 8")
    a.json("POST", f"/v1/sandboxes/{s}/pause", {})
    second = a.json("POST", f"/v1/sandboxes/{s}/snapshots", {})
    assert "name" not in second
    assert a.json("GET", f"/v1/sandboxes/{s}")["state"] == "paused"
    listed = a.json("GET", "/v1/snapshots")
    assert [r["id"] for r in listed["snapshots"]] == [second["id"], first["id"]] and listed["next"] is None
    page = a.json("GET", "/v1/snapshots?limit=1")
    assert page["snapshots"] == listed["snapshots"][:1]
    assert a.json("GET", "/v1/snapshots?limit=1&cursor=" + page["next"])["snapshots"] == listed["snapshots"][1:]
    assert a.json("GET", "/v1/snapshots/" + first["id"]) == first == listed["snapshots"][1]
    a.kill(s)
    boxes = []
    for snapshot, x in ((first, 7), (second, 8), (first, 7)):
        m = a.create(snapshot=snapshot["id"], env={"B": "2"}, metadata={"n": 1}, timeout_s=400)
        assert m["started"] == "snapshot" and m["limits"] == snapshot["limits"] and m["metadata"] == {"n": 1}, m
        boxes.append(m["id"])
        whole(a, m["id"], x)
        assert run(a, m["id"], "print(os.environ['B'])") == "2\n"
    identities_differ(a, boxes)
    independent(a, boxes)
    for body, code in (({"snapshot": first["id"], "template": "python"}, "conflicting_fields"),
                       ({"snapshot": first["id"], "limits": {"cpus": 1}}, "conflicting_fields"),
                       ({"snapshot": first["id"], "engine": "jail"}, "engine_unavailable")):
        refused(400, code, a.create, **body)
    refused(404, "not_found", a.create, snapshot="snap-never")
    # They outlive a restart; deleted, their files are gone and what was made of them goes on.
    a.stop()
    a.start()
    m = a.create(snapshot=second["id"])
    whole(a, m["id"], 8)
    for r in (first, second):
        a.request("DELETE", "/v1/snapshots/" + r["id"])
        refused(404, "not_found", a.request, "DELETE", "/v1/snapshots/" + r["id"])
        refused(404, "not_found", a.request, "GET", "/v1/snapshots/" + r["id"])
    assert os.listdir(os.path.join(a.state, "snapshots")) == []
    whole(a, m["id"], 8)
    a.kill(m["id"])


def damaged(a):
    """A snapshot that is not what was written, or of another version, is refused with a sentence, and nothing is left of it."""
    s = begin(a)
    snap = a.json("POST", f"/v1/sandboxes/{s}/snapshots", {})["id"]
    d = os.path.join(a.state, "snapshots", snap)
    assert sorted(os.listdir(d)) == ["manifest.json", "pages", "scratch.ext4", "state"]
    for name, at in (("pages", 4096 * 3), ("pages", 100), ("state", 50), ("scratch.ext4", 1024 + 120), ("manifest.json", 30)):
        with open(os.path.join(d, name), "r+b") as f:
            f.seek(at)
            old = f.read(1)
            f.seek(at)
            f.write(bytes([old[0] ^ 1]))
        e = refused(500, "snapshot_damaged", a.create, snapshot=snap)
        assert snap in e.error["message"], e
        with open(os.path.join(d, name), "r+b") as f:
            f.seek(at)
            f.write(old)
    os.rename(os.path.join(d, "pages"), os.path.join(d, "away"))
    refused(500, "snapshot_damaged", a.create, snapshot=snap)
    os.rename(os.path.join(d, "away"), os.path.join(d, "pages"))
    m = a.create(snapshot=snap)["id"]
    whole(a, m, 7)
    a.kill(m)
    a.kill(s)
    assert a.json("GET", "/v1/sandboxes")["sandboxes"] == []
    a.request("DELETE", "/v1/snapshots/" + snap)


PARTS = {f.__name__: f for f in (running, paused, busy, snapshots, damaged)}


def main():
    wanted = sys.argv[1:] or [*PARTS, "failures"]
    shared = [name for name in wanted if name in PARTS]
    if shared:
        with Appliance() as a:
            for name in shared:
                began = time.monotonic()
                PARTS[name](a)
                print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)
    if "failures" in wanted:
        failures()


main()
