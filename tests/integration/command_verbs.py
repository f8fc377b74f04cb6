#!/usr/bin/python3
"""The command's verbs about what is there: logs, owner, key, template, pause, resume, fork, shell, doctor."""
import json
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from fake_v1 import CARREL, KEY, PNG, TOP, carrel, settings, start, wait_for  # noqa: E402


def box(fake):
    carrel(fake, "run", "--keep", "-c", "exit 0")
    return f"sbx-{fake.made}"


def test_logs(fake, d):
    out, err = carrel(fake, "logs", code=1)
    assert "never had a sandbox" in err
    sandbox = box(fake)
    out, err = carrel(fake, "logs", sandbox)
    assert out.decode() == ("--- exe-a  ok  2026-01-01 10:00:00\n> x = 1\n> print(x)\n1\n42\n"
                            "--- exe-b  error  2026-01-01 10:00:01\n> bad\n"
                            "--- exe-run  running  2026-01-01 10:00:02\n> slow()\nhalf\n"), out.decode()
    assert err == ("warned\nTraceback\nValueError: bad\n"
                   "[cut here, 900000 bytes in all: carrel logs --full 3 exe-run]\n"), err
    assert carrel(fake, "logs")[0] == out, "the newest without an id"
    assert [r["execution_id"] for r in json.loads(carrel(fake, "logs", "--json", "-n", "2", sandbox)[0])] == ["exe-run", "exe-b"]
    assert json.loads(carrel(fake, "logs", "--json", "exe-b")[0])["status"] == "error"
    out, err = carrel(fake, "logs", "exe-never", code=1)
    assert err == "carrel: There is no sandbox or execution exe-never of yours: see carrel ls -a.\n"
    out, err = carrel(fake, "logs", "--full", "3", "exe-run")
    assert out == PNG * 5000 and "kept no more" in err
    for words in (["-n", "0"], ["--full", "1"], ["--full", "1", "-f", "exe-a"], ["a", "b"], ["--what"]):
        carrel(fake, "logs", *words, code=2)


def test_follow(fake, d):
    def begin(*words):
        fake.interrupted.clear()
        streams = fake.streams
        p = subprocess.Popen([CARREL, "logs", "-f", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=settings(fake))
        wait_for(lambda: fake.streams > streams)
        return p

    p = begin("exe-run")
    fake.interrupted.set()
    out, err = p.communicate(timeout=20)
    assert out.endswith(b"> slow()\nhalf\nother half\n") and p.returncode == 6, (out, err)
    p = begin(f"sbx-{fake.made}", "--json")
    fake.interrupted.set()
    out, err = p.communicate(timeout=20)
    assert [json.loads(line)["type"] for line in out.splitlines() if b"keepalive" not in line] == ["started", "stdout", "stdout", "end"]
    assert p.returncode == 0
    p = begin("exe-run")
    p.send_signal(signal.SIGINT)
    assert p.wait(20) == 130 and not fake.interrupted.is_set(), "the code goes on"
    fake.interrupted.set()


def test_people(fake, d):
    sent = lambda: json.loads(fake.asked[-1][2])  # noqa: E731
    assert carrel(fake, "owner", "create", "Ann", "--quota", "5") == (b"own-1\n", "")
    assert sent() == {"name": "Ann", "quota": {"sandboxes": 5}} and fake.asked[-1][:2] == ("POST", "/v1/owners")
    out, err = carrel(fake, "owner", "create", "taken", code=1)
    assert err == "carrel: There is an owner of that name. (field name)\n"
    out, err = carrel(fake, "key", "create", "own-1", "--name", "ci", "--expires", "2d")
    assert out == KEY.encode() + b"\n" and "carrel key rm key-1" in err
    at = time.mktime(time.strptime(sent()["expires_at"], "%Y-%m-%dT%H:%M:%S.000Z")) - time.mktime(time.gmtime())
    assert abs(at - 2 * 86400) < 60 and fake.asked[-1][1] == "/v1/owners/own-1/keys", sent()
    carrel(fake, "key", "create", "own-1", "--expires", "2030-01-31T12:00:00Z")
    assert sent() == {"expires_at": "2030-01-31T12:00:00Z"}
    for option, admin in (("--admin", True), ("--no-admin", False)):
        carrel(fake, "key", "create", "own-1", option)
        assert sent() == {"admin": admin}
    assert json.loads(carrel(fake, "key", "create", "own-1", "--json")[0])["key"] == KEY
    assert sent() == {}
    out, err = carrel(fake, "key", "rm", "key-7", "key-1", code=1)
    assert out == b"key-1\n" and "no such key" in err
    assert b"first" in carrel(fake, "owner", "ls")[0] and b"own-1" in carrel(fake, "key", "ls", "own-1")[0]
    for words in (["owner"], ["owner", "rm", "x"], ["owner", "create"], ["owner", "create", "x", "--quota", "many"],
                  ["owner", "create", "x", "--expires", "1d"], ["key", "create"], ["key", "rm"], ["key", "ls"],
                  ["key", "create", "own-1", "--expires", "soon"], ["key", "create", "own-1", "--expires", "99999999d"],
                  ["key", "create", "own-1", "--expires", "3w"], ["key", "rm", "--admin", "key-1"], ["owner", "create", "x", "--admin"]):
        out, err = carrel(fake, *words, code=2)
        assert err.startswith("carrel ") and out == b"", words
    out, err = carrel(fake, "template", "ls")
    assert [line.split() for line in out.decode().splitlines()] == [
        ["NAME", "LANGUAGES", "MEMORY", "CPUS", "BUILT", "IMAGE"],
        ["python", "python", "1024", "MB", "1.5", "2026-01-01", "00:00:00", "0123abcd"]], out
    carrel(fake, "template", code=2)


def test_life(fake, d):
    for verb in ("pause", "resume"):
        out, err = carrel(fake, verb, f"sbx-{fake.made}", code=1)
        assert (out, err) == (b"", "carrel: This sandbox cannot be paused.\n")
        carrel(fake, verb, code=2)
    out, err = carrel(fake, "--json", "pause", f"sbx-{fake.made}", code=1)
    assert json.loads(err)["code"] == "not_supported"
    out, err = carrel(fake, "fork", "-n", "3", "--timeout", "60", f"sbx-{fake.made}", code=1)
    assert out == b"sbx-fork-0\nsbx-fork-1\n" and err == "carrel: There is no room.\n"
    assert json.loads(fake.asked[-1][2]) == {"count": 3, "timeout_s": 60}
    for words in ([], ["-n", "17", "sbx-1"], ["a", "b"]):
        carrel(fake, "fork", *words, code=2)
    assert carrel(fake, "snapshot", "create", "--name", "before", f"sbx-{fake.made}")[0] == b"snap-1\n"
    assert json.loads(fake.asked[-1][2]) == {"name": "before"}
    assert json.loads(carrel(fake, "snapshot", "create", "--json", f"sbx-{fake.made}")[0])["id"] == "snap-1"
    assert carrel(fake, "snapshot", "ls")[0].decode().splitlines()[1].split() == [
        "snap-1", "n\u00e4me", "sbx-1", "python", "20", "MB", "2026-01-01", "00:00:00"]
    assert carrel(fake, "snapshot", "rm", "snap-1")[0] == b"snap-1\n"
    out, err = carrel(fake, "snapshot", "rm", "snap-2", code=1)
    assert (out, err) == (b"", "carrel: There is no such snapshot.\n")
    for words in ([], ["create"], ["create", "a", "b"], ["ls", "x"], ["rm"], ["keep", "a"]):
        carrel(fake, "snapshot", *words, code=2)
    carrel(fake, "run", "--snapshot", "snap-1", "--template", "python", "-c", "1", code=2)


def test_shell(fake, d):
    sandbox = f"sbx-{fake.made}"
    out, err = carrel(fake, "shell", sandbox, stdin=b"ls\n\n  \necho", code=3)
    lines = [json.loads(b)["argv"] for m, p, b in fake.asked if p.endswith("/processes")]
    assert [argv[4] for argv in lines[:2]] == ["ls", "echo"] and lines[0][:2] == ["/bin/bash", "-c"], lines
    assert lines[0][5] == lines[1][5] == lines[2][3] and lines[2][:3] == ["rm", "-rf", "--"], "one state, removed at the end"
    carrel(fake, "shell", sandbox, stdin=b"exit 9\nls\n", code=9)
    out, err = carrel(fake, "shell", sandbox, stdin=b"\xff\n", code=2)
    assert "not UTF-8" in err
    out, err = carrel(fake, "shell", "sbx-999", stdin=b"ls\n", code=1)
    assert err == "carrel: There is no such sandbox.\n"
    for words in ([], ["a", "b"], ["--json", sandbox]):
        carrel(fake, "shell", *words, code=2)
    p = subprocess.Popen([CARREL, "shell", sandbox], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=settings(fake))
    p.stdin.write(b"ls\n")
    p.stdin.flush()
    assert p.stdout.read(1), "what the line printed, which has no end of line"
    p.send_signal(signal.SIGTERM)
    assert p.wait(20) == 143, "while it waits for a line, too"
    for f in (p.stdin, p.stdout, p.stderr):
        f.close()


def test_doctor(fake, d):
    quiet = settings(fake, CARREL_URL=None, CARREL_TOKEN=None)
    done = subprocess.run([CARREL, "doctor", "--json"], env=quiet, cwd=d, capture_output=True, timeout=60)
    answer = json.loads(done.stdout)
    checks = {c["name"]: c for c in answer["checks"]}
    assert list(checks) == ["processor", "kvm", "kernel", "cgroups", "namespaces", "io_uring", "root", "memory", "qemu", "nginx",
                            "state", "cache", "image", "appliance"]
    assert all(c["level"] in ("ok", "warning", "missing") and c["found"] for c in checks.values())
    assert all(c["follows"].endswith(".") for c in checks.values() if c["level"] != "ok"), checks
    assert answer["ok"] == (done.returncode == 0) == all(c["level"] != "missing" for c in checks.values())
    assert checks["appliance"]["found"] == "none is known here"

    # Who may run on the host's own kernel is said where a setting lets anybody.
    for given, says in (({}, ""), ({"ENGINE": "jail"}, "ENGINE=jail: Every sandbox"), ({"ALLOW_JAIL": "yes"}, "ALLOW_JAIL=yes: A sandbox that names")):
        done = subprocess.run([CARREL, "doctor", "--json"], env=dict(quiet, **given), cwd=d, capture_output=True, timeout=60)
        [check] = [c for c in json.loads(done.stdout)["checks"] if c["name"] == "namespaces"]
        assert check["level"] != "ok" or (check["follows"].startswith(says) if says else not check["follows"]), (given, check)

    # What is missing fails, what is old only warns; neither changes anything here.
    bare = os.path.join(d, "bare")
    os.makedirs(os.path.join(d, "cache", "images", "x"))
    os.mkdir(bare)
    for built, level in (("2020-01-01T00:00:00.000Z", "warning"), (time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()), "ok")):
        with open(os.path.join(d, "cache", "images", "x", "manifest.json"), "w", encoding="ascii") as f:
            json.dump({"built_at": built, "template": "python"}, f)
        done = subprocess.run([CARREL, "doctor", "--json"], cwd=d, capture_output=True, timeout=60,
                              env=dict(quiet, PATH=bare, CARREL_CACHE=os.path.join(d, "cache")))
        checks = {c["name"]: c for c in json.loads(done.stdout)["checks"]}
        assert done.returncode == 1 and checks["qemu"]["level"] == "missing", checks["qemu"]
        assert checks["image"]["level"] == level, checks["image"]
    out, err = carrel(fake, "doctor", code=done.returncode and 0, env=dict(settings(fake), CARREL_URL="http://127.0.0.1:9"), cwd=d)
    assert re.search(r"^ok +appliance +none answers$", out.decode(), re.M), out
    assert os.listdir(bare) == []
    carrel(fake, "doctor", "x", code=2)
    with open(os.path.join(TOP, "appliance", "version.h"), encoding="ascii") as f:
        mine = re.search(r'CARREL_VERSION "(.+)"', f.read())[1]
    for health, level, says in (({"status": "ok", "ready": True, "version": mine}, "ok", ""),
                                ({"status": "ok", "ready": True, "version": "0.0.1"}, "warning", f"This command is of version {mine}"),
                                ({"status": "ok", "ready": True}, "warning", f"This command is of version {mine}"),
                                ({"status": "starting", "ready": False, "version": mine, "message": "It boots."}, "warning", "It boots.")):
        fake.health = health
        done = subprocess.run([CARREL, "doctor", "--json"], cwd=d, capture_output=True, timeout=60, env=settings(fake))
        [check] = [c for c in json.loads(done.stdout)["checks"] if c["name"] == "appliance"]
        assert check["level"] == level and check["follows"].startswith(says), check
        assert health["status"] in check["found"] and health.get("version", "unknown") in check["found"], check


start((test_logs, test_follow, test_people, test_life, test_shell, test_doctor))
