#!/usr/bin/python3
"""A backup under load: taken while twenty sandboxes work, it restores on a second state directory with every row that was
acknowledged before it began, and the bytes that go with them; what ran ends with a reason, what was paused goes on."""
import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import TOP, Appliance, end, refused, run, skip, text  # noqa: E402

CARREL = os.path.join(TOP, "build", "carrel")
BUSY = 20
ROUNDS = 3  # cells of each that are acknowledged before the backup begins


def command(state, *words, code=0):
    done = subprocess.run([CARREL, *words], env=dict(os.environ, STATE=state), capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done
    return done.stdout + done.stderr


class Load:
    """Twenty sandboxes, each with a cell after the other; what was acknowledged, and when."""

    def __init__(self, a, ids):
        self.a, self.acknowledged, self.stop = a, {}, threading.Event()
        self.warm = threading.Semaphore(0)
        self.failures = []
        self.threads = [threading.Thread(target=self.work, args=(n, s)) for n, s in enumerate(ids)]
        for t in self.threads:
            t.start()

    def work(self, n, s):
        try:
            i = 0
            while not self.stop.is_set():
                # Every fourth says more than a row holds.
                said = f"{n} {i} " * (3000 if i % 4 == 0 else 1)
                events = self.a.execute(s, f"print({said!r})")
                assert end(events)["status"] == "ok", events
                self.acknowledged[events[0]["execution_id"]] = (s, hashlib.sha256(said.encode() + b"\n").hexdigest())
                i += 1
                if i <= ROUNDS:
                    self.warm.release()
        except Exception as e:
            self.failures.append(f"{n}: {e!r}")
            for _ in range(ROUNDS):
                self.warm.release()

    def wait_warm(self):
        for _ in range(ROUNDS * len(self.threads)):
            assert self.warm.acquire(timeout=300)
        assert not self.failures, self.failures

    def end(self):
        self.stop.set()
        for t in self.threads:
            t.join()
        assert not self.failures, self.failures


def rows_of(path):
    with contextlib.closing(sqlite3.connect(path)) as db:
        return ({r[0] for r in db.execute("SELECT id FROM executions")}, {r[0] for r in db.execute("SELECT id FROM sandboxes")},
                db.execute("SELECT count(*) FROM audit WHERE action = 'execute'").fetchone()[0])


def taken(a, d):
    """-> the backup's file, what was acknowledged before it began, the paused sandbox"""
    ids = [a.create(timeout_s=900)["id"] for _ in range(BUSY)]
    paused = a.create(timeout_s=900)["id"]
    run(a, paused, "kept = 'in memory'\nopen('kept.txt', 'w').write('on disk')")
    a.json("POST", f"/v1/sandboxes/{paused}/pause", {})
    long = a.events("POST", f"/v1/sandboxes/{ids[0]}/processes", {"cmd": "sleep 300"})
    next(long)
    load = Load(a, ids)
    file = os.path.join(d, "carrel:backup.tar")
    try:
        load.wait_warm()
        before = dict(load.acknowledged)
        said = command(a.state, "backup", file)
        during = len(load.acknowledged) - len(before)
    finally:
        load.end()
        long.close()
    print(f"{len(before)} cells before, {during} during; {said.strip()}")
    assert os.stat(file).st_mode & 0o777 == 0o600 and os.listdir(d) == [os.path.basename(file)]
    for s in ids:
        a.kill(s)
    return file, before, paused, ids


def restored(d, file, before, paused, ids, token, port):
    state = tempfile.mkdtemp(prefix="carrel-test-", dir=d)
    with open(os.path.join(state, "mine"), "w", encoding="ascii"):
        pass
    assert "is there already" in command(state, "restore", file, code=1)
    os.unlink(os.path.join(state, "mine"))
    assert "is as it was" in command(state, "restore", file)
    executions, sandboxes, audited = rows_of(os.path.join(state, "carrel.db"))
    assert set(before) <= executions, set(before) - executions
    assert {*ids, paused} <= sandboxes and audited >= len(before)
    with Appliance(state=state) as b:
        assert b.token == token, "its key is the same"
        for x, (s, digest) in before.items():
            row = b.json("GET", "/v1/executions/" + x)
            assert row["status"] == "ok" and row["sandbox_id"] == s, row
            full = b.request("GET", f"/v1/executions/{x}/outputs/1/full")[1]
            assert hashlib.sha256(full).hexdigest() == digest, (row, len(full))
        for s in ids:
            got = b.json("GET", "/v1/sandboxes/" + s)
            assert (got["state"], got["end_reason"]) == ("ended", "host-restart"), got
        # No row without its bytes, and no bytes without a row.
        listed = [r for s in ids for r in b.json("GET", f"/v1/sandboxes/{s}/executions?limit=1000")["executions"]]
        assert {r["status"] for r in listed} <= {"ok", "died", "cancelled"}, {r["status"] for r in listed}
        for r in listed:
            for o in r["outputs"]:
                b.request("GET", f"/v1/executions/{r['execution_id']}/outputs/{o['n']}/full")
        b.json("POST", f"/v1/sandboxes/{paused}/resume", {})
        b.created = b.created | {paused}
        assert run(b, paused, "print(kept, open('kept.txt').read())") == "in memory on disk\n"
        b.kill(paused)
    shutil.rmtree(state)


def refusals(d):
    junk = os.path.join(d, "junk")
    with open(junk, "wb") as f:
        f.write(os.urandom(4096))
    state = os.path.join(d, "third")
    command(state, "restore", junk, code=1)
    subprocess.run(["tar", "-cf", junk, "-C", d, "--files-from", "/dev/null"], check=True)
    assert "no backup" in command(state, "restore", junk, code=1)
    command(state, "restore", os.path.join(d, "none"), code=1)
    assert "cannot be read" in command(os.path.join(d, "nowhere"), "backup", os.path.join(d, "x"), code=1)
    assert not os.path.exists(state) and not os.path.exists(state + ".restoring")
    os.unlink(junk)
    assert os.listdir(d) == [], os.listdir(d)


def main():
    if os.geteuid() != 0:
        skip("an appliance needs root")
    d = tempfile.mkdtemp(prefix="carrel-backup-")
    try:
        refusals(d)
        with Appliance(SANDBOXES_PER_OWNER=BUSY + 2, MEMORY_MB=64 * 1024) as a:
            file, before, paused, ids = taken(a, d)
            token, port = a.token, a.port
        restored(d, file, before, paused, ids, token, port)
    finally:
        shutil.rmtree(d)


if __name__ == "__main__":
    main()
