#!/usr/bin/python3
"""The command against an appliance of the test's own: what it sends, shows, saves, and exits with."""
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from fake_v1 import CARREL, KEY, PNG, carrel, settings, start, wait_for  # noqa: E402


def test_run(fake, d):
    out, err = carrel(fake, "run", "-c", "exit 0")
    assert (out, err) == (b"", "")
    assert fake.ended == [f"sbx-{fake.made}"], "the sandbox is deleted at the end"
    out, err = carrel(fake, "run", "-c", "raise", code=1)
    assert err == "Traceback line 1\nValueError: bad\n", err
    carrel(fake, "run", "-c", "exit 7", code=7)
    for value, code in (("7", 7), ("0", 0), ("None", 0), ("gone wrong", 1)):
        carrel(fake, "run", "-c", "leave " + value, code=code)
    out, err = carrel(fake, "run", "-c", "segv", code=128 + signal.SIGSEGV)
    assert "SIGSEGV" in err
    out, err = carrel(fake, "run", "--timeout", "5", "-c", "slow", code=124)
    assert "out of time" in err
    assert json.loads([b for m, p, b in fake.asked if p.endswith("/execute")][-1]) == {"code": "slow", "timeout_s": 5}
    out, err = carrel(fake, "run", "-c", "split")
    assert out == b"x" * 300000 + b"\n"
    out, err = carrel(fake, "run", "-c", "long", code=1)
    assert "1 MiB" in err, err
    out, err = carrel(fake, "run", "-c", "cut")
    assert out == b"line 2\nline 3\nline 4\n", "a broken stream is taken up where it broke"
    out, err = carrel(fake, "run", "--engine", "jail", "-c", "1", code=1)
    assert err == "carrel: There is no engine jail here. (field engine)\n", err
    out, err = carrel(fake, "--json", "run", "-c", "exit 4", code=4)
    assert [json.loads(line)["type"] for line in out.splitlines()] == ["started", "end"]
    assert len(fake.ended) == fake.made


def test_live(fake, d):
    began = time.monotonic()
    p = subprocess.Popen([CARREL, "run", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         env=settings(fake))
    p.stdin.write(b"live")
    p.stdin.close()
    assert p.stdout.readline() == b"first\n"
    assert time.monotonic() - began < 0.9, "output is shown as it comes"
    assert p.stdout.read() == "last \u6f22\n".encode()
    assert p.stderr.read() == b"warned\n"
    assert p.wait(20) == 0


def test_files(fake, d):
    data = os.urandom(3_000_000)
    with open(os.path.join(d, "data.bin"), "wb") as f:
        f.write(data)
    with open(os.path.join(d, "code.py"), "w", encoding="ascii") as f:
        f.write("write")
    carrel(fake, "run", "code.py", "--put", "data.bin", "--put", "data.bin:/tmp/\u6f22 x", "--get", "out.bin",
           "--get", "out.bin:renamed", cwd=d)
    box = f"sbx-{fake.made}"
    assert fake.files[box, "data.bin"] == data and fake.files[box, "/tmp/\u6f22 x"] == data
    for name in ("out.bin", "renamed"):
        with open(os.path.join(d, name), "rb") as f:
            assert f.read() == PNG * 1000
    made = fake.made
    out, err = carrel(fake, "run", "code.py", "--put", "nowhere", code=1, cwd=d)
    assert "nowhere: No such file" in err and fake.made == made, "known failures make no sandbox"
    out, err = carrel(fake, "run", "-c", "exit 5", "--get", "none", code=5, cwd=d)
    assert "There is no file none." in err
    out, err = carrel(fake, "run", "-c", "exit 0", "--get", "none", code=1, cwd=d)
    assert not os.path.exists(os.path.join(d, "none"))
    out, err = carrel(fake, "run", "-c", "plot")
    assert out == b"42\n" and "[picture 1: image/png" in err, (out, err)
    carrel(fake, "run", "-c", "plot", "--images", d)
    with open(os.path.join(d, "carrel-1.png"), "rb") as f:
        assert f.read() == PNG


def test_cp(fake, d):
    data = os.urandom(500_000)
    with open(os.path.join(d, "a"), "wb") as f:
        f.write(data)
    carrel(fake, "cp", "a", "sbx-1:", cwd=d)
    assert fake.files["sbx-1", "a"] == data
    carrel(fake, "cp", "a", "sbx-1:dir", cwd=d)
    assert fake.files["sbx-1", "dir/a"] == data, "a directory takes the file's name"
    carrel(fake, "cp", "-", "sbx-1:piped", stdin=data)
    assert fake.files["sbx-1", "piped"] == data, "chunked, without a length"
    out, err = carrel(fake, "cp", "sbx-1:a", "-")
    assert out == data
    os.mkdir(os.path.join(d, "into"))
    carrel(fake, "cp", "sbx-1:a", "into", cwd=d)
    with open(os.path.join(d, "into", "a"), "rb") as f:
        assert f.read() == data
    assert os.listdir(os.path.join(d, "into")) == ["a"], "no temporary file is left"
    out, err = carrel(fake, "cp", "sbx-1:none", "into", code=1, cwd=d)
    assert err == "carrel: There is no file none.\n" and os.listdir(os.path.join(d, "into")) == ["a"]
    out, err = carrel(fake, "cp", "a", "sbx-999:", code=1, cwd=d)
    assert "no such sandbox" in err
    carrel(fake, "cp", "a", "b", code=2, cwd=d)


def test_ls_kill_exec(fake, d):
    out, err = carrel(fake, "ls")
    lines = out.decode().splitlines()
    assert len(lines) == fake.made + 1 and lines[0].split() == "ID STATE ENGINE TEMPLATE STARTED CREATED LEFT".split()
    assert len({line.index(word) for line, word in zip(lines, ["STATE"] + ["running"] * fake.made)}) == 1, "aligned"
    assert "4m" in lines[1], lines[1]
    out, err = carrel(fake, "ls", "--all", "--json")
    rows = json.loads(out)
    assert len(rows) == fake.made + 1 or rows[-1]["end_reason"] == "deadline"
    out, err = carrel(fake, "kill", "sbx-1", "sbx-777", "sbx-2", code=1)
    assert out == b"sbx-1\nsbx-2\n" and "no such sandbox" in err
    out, err = carrel(fake, "exec", "sbx-1", "--", "cat", "--help", stdin="gr\u00fc\u00dfe".encode(), code=3)
    assert out == "gr\u00fc\u00dfe".encode() + b"\xff\x00" and err == "cat --help", (out, err)
    out, err = carrel(fake, "exec", "-n", "--timeout", "2", "sbx-1", "sleep", "9", stdin=b"x", code=124)
    assert out.startswith(b"none")
    carrel(fake, "exec", "sbx-1", "--", "cat", stdin=b"\xff", code=1)


def test_signals(fake, d):
    def begin(*words):
        fake.interrupted.clear()
        streams = fake.streams
        p = subprocess.Popen([CARREL, "run", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=settings(fake))
        wait_for(lambda: fake.streams > streams)
        assert p.stdout.readline() == b"waiting\n"
        return p

    p = begin("-c", "wait")
    p.send_signal(signal.SIGINT)
    assert p.wait(20) == 130 and fake.interrupted.is_set()
    assert fake.ended[-1] == f"sbx-{fake.made}"
    p = begin("-c", "wait stubborn")
    p.send_signal(signal.SIGINT)
    wait_for(fake.interrupted.is_set)
    p.send_signal(signal.SIGINT)
    assert p.wait(20) == 130 and fake.ended[-1] == f"sbx-{fake.made}"
    p = begin("-c", "wait")
    p.send_signal(signal.SIGTERM)
    assert p.wait(20) == 143 and fake.ended[-1] == f"sbx-{fake.made}"
    streams = fake.streams
    p = subprocess.Popen([CARREL, "run", "--template", "slow", "-c", "x"], stdin=subprocess.DEVNULL, env=settings(fake))
    wait_for(lambda: fake.streams > streams)
    p.send_signal(signal.SIGINT)
    assert p.wait(20) == 130 and fake.ended[-1] == f"sbx-{fake.made}", "a sandbox on its way is deleted, too"
    fake.interrupted.set()
    ended = len(fake.ended)
    out, err = carrel(fake, "run", "--keep", "-c", "exit 0")
    assert "is kept" in err and len(fake.ended) == ended
    carrel(fake, "run", "--sandbox", "sbx-1", "-c", "exit 0")
    assert len(fake.ended) == ended


def test_where(fake, d):
    out, err = carrel(fake, "ls", code=3, env=settings(fake, CARREL_URL="http://127.0.0.1:9"))
    assert "make run" in err and "CARREL_URL" in err
    out, err = carrel(fake, "ls", code=3, env=settings(fake, CARREL_URL=None, CARREL_TOKEN=None), cwd=d)
    assert "make run" in err
    out, err = carrel(fake, "ls", code=1, env=settings(fake, CARREL_TOKEN="wrong"))
    assert err == "carrel: This key opens nothing.\n"
    os.mkdir(os.path.join(d, "state"))
    for name, text in (("url", fake.url), ("token", KEY)):
        with open(os.path.join(d, "state", name), "w", encoding="ascii") as f:
            f.write(text + "\n")
    carrel(fake, "ls", env=settings(fake, CARREL_URL=None, CARREL_TOKEN=None), cwd=d)
    carrel(fake, "ls", env=settings(fake, CARREL_URL=None, CARREL_TOKEN=None, STATE=os.path.join(d, "state")))
    out, err = carrel(fake, "ls", code=1, env=settings(fake, CARREL_URL="http://127.0.0.2:9", CARREL_TOKEN=None), cwd=d)
    assert "no key for" in err, "a key goes to its own appliance only"
    conf = os.path.join(d, "carrel.conf")
    with open(conf, "w", encoding="ascii") as f:
        f.write(f"# where it is\nURL = {fake.url}/\nTOKEN={KEY}\n")
    carrel(fake, "ls", env=settings(fake, CARREL_URL=None, CARREL_TOKEN=None, CARREL_CONF=conf))


def test_usage(fake, d):
    for words in ([], ["nothing"], ["--what"], ["run"], ["run", "a", "b"], ["run", "-c"], ["run", "-c", "1", "--timeout", "0"],
                  ["kill"], ["exec", "sbx-1"], ["ls", "x"], ["cp", "x"], ["run", "-c", "1", "--env", "x"]):
        out, err = carrel(fake, *words, code=2)
        assert "carrel" in err and out == b"", words
    out, err = carrel(fake, "--help")
    for verb in ("run", "ls", "exec", "shell", "cp", "logs", "kill", "pause", "resume", "fork", "snapshot", "template", "owner", "key",
                 "doctor", "help"):
        assert verb.encode() in out
        said = carrel(fake, verb, "--help")[0]
        assert b"usage: carrel " + verb.encode() in said and carrel(fake, "help", verb)[0] == said
    for codes in (b"3        no appliance answers", b"124 ", b"128 + N"):
        assert codes in out


start((test_run, test_live, test_files, test_cp, test_ls_kill_exec, test_signals, test_where, test_usage))
