#!/usr/bin/python3
"""The command against a real appliance: code and files in and out, programs, logs, a shell, owners and keys."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import TOP, Appliance  # noqa: E402
from data import seattle_weather  # noqa: E402
from typist import Typist  # noqa: E402

CARREL = os.path.join(TOP, "build", "carrel")
RAIN = """
import pandas as pd
d = pd.read_csv("seattle-weather.csv", parse_dates=["date"])
print(len(d), "days")
d.groupby(d.date.dt.month)["precipitation"].sum().round(1).to_csv("monthly.csv")
d["weather"].nunique()
"""
PATIENCE_S = 60


class Command:
    def __init__(self, appliance, d):
        self.d = d
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("CARREL")}
        self.env["STATE"] = appliance.state

    def __call__(self, *words, code=0, stdin=b"", **env):
        done = subprocess.run([CARREL, *words], cwd=self.d, input=stdin, capture_output=True, timeout=120,
                              env={**self.env, **env})
        assert done.returncode == code, (words, done.returncode, done.stdout[-800:], done.stderr[-800:])
        self.err = done.stderr.decode()
        return done.stdout

    def start(self, *words, **kw):
        return subprocess.Popen([CARREL, *words], cwd=self.d, env=self.env, **kw)


def test_files(carrel, d):
    """run --put --get on a CSV; cp both ways, byte for byte."""
    csv = seattle_weather()
    with open(os.path.join(d, "seattle-weather.csv"), "wb") as f:
        f.write(csv)
    with open(os.path.join(d, "rain.py"), "w", encoding="utf-8") as f:
        f.write(RAIN)
    out = carrel("run", "rain.py", "--keep", "--put", "seattle-weather.csv", "--get", "monthly.csv")
    assert out == b"1461 days\n5\n", out
    box = re.search(r"The sandbox (\S+) is kept", carrel.err).group(1)
    with open(os.path.join(d, "monthly.csv"), encoding="ascii") as f:
        months = f.read().splitlines()
    january = sum(float(r.split(",")[1]) for r in csv.decode().split()[1:] if r[5:7] == "01")
    assert len(months) == 13 and abs(float(months[1].split(",")[1]) - january) < 0.06, months
    carrel("cp", f"{box}:seattle-weather.csv", "back.csv")
    blob = os.urandom(3_000_001)
    with open(os.path.join(d, "blob"), "wb") as f:
        f.write(blob)
    carrel("cp", "blob", f"{box}:a b \u6f22.bin")
    carrel("cp", f"{box}:a b \u6f22.bin", "blob.back")
    for name, want in (("back.csv", csv), ("blob.back", blob)):
        with open(os.path.join(d, name), "rb") as f:
            assert f.read() == want, name
    assert carrel("cp", f"{box}:seattle-weather.csv", "-") == csv
    return box


def test_codes(carrel, box):
    carrel("run", "--sandbox", box, "-c", "import sys; sys.exit(7)", code=7)
    carrel("run", "--sandbox", box, "-c", "1/0", code=1)
    assert "ZeroDivisionError" in carrel.err
    carrel("run", "--sandbox", box, "--timeout", "2", "-c", "while True: pass", code=124)
    assert carrel("exec", box, "--", "sh", "-c", "cat; exit 3", stdin="gr\u00fc\u00dfe".encode(), code=3) == "gr\u00fc\u00dfe".encode()
    carrel("exec", box, "--", "sh", "-c", "kill -9 $$", code=137)
    carrel("exec", "--timeout", "1", box, "--", "sleep", "60", code=124)
    carrel("ls", code=3, CARREL_URL="http://127.0.0.1:9", CARREL_TOKEN="x")
    carrel("ls", code=1, CARREL_TOKEN="e2b_" + "0" * 64)
    for verb in ("pause", "resume", "fork"):
        carrel(verb, "sbx-never", code=1)
        assert carrel.err.startswith("carrel: ") and carrel.err.rstrip().endswith("."), carrel.err


def test_lists(carrel, box):
    [row] = [r for r in json.loads(carrel("ls", "--json")) if r["id"] == box]
    assert row["state"] == "running" and row["engine"] in ("tcg", "kvm"), row
    assert box in carrel("ls", "-q").decode().split()
    [template] = json.loads(carrel("template", "ls", "--json"))
    assert template["image"] == row["image"] and "python" in template["languages"], template
    assert template["name"].encode() in carrel("template", "ls")
    health = {c["name"]: c for c in json.loads(carrel("doctor", "--json"))["checks"]}
    assert health["appliance"]["level"] == "ok" and health["image"]["level"] == "ok", health
    assert ": ok" in health["appliance"]["found"], health["appliance"]


def test_logs(carrel, box):
    runs = json.loads(carrel("logs", "--json", box))
    assert [r["status"] for r in runs[::-1]] == ["ok", "error", "error", "timeout"], [r["status"] for r in runs]
    out = carrel("logs", box).decode()
    assert out.index("1461 days") < out.index("sys.exit(7)") < out.index("while True"), out
    assert "ZeroDivisionError" in carrel.err
    xid = runs[-1]["execution_id"]
    out = carrel("logs", xid).decode()
    assert out.startswith(f"--- {xid}  ok") and out.endswith("1461 days\n5\n"), out
    carrel("logs", "-f", runs[-2]["execution_id"])
    carrel("logs", "exe-never", code=1)
    # Past what a log keeps at hand, the whole is still there.
    carrel("run", "--sandbox", box, "-c", "for i in range(100000): print('line', i)")
    [last] = json.loads(carrel("logs", "--json", "-n", "1", box))
    [output] = last["outputs"]
    assert output["truncated"] is True
    carrel("logs", last["execution_id"])
    assert f"carrel logs --full {output['n']} {last['execution_id']}" in carrel.err, carrel.err
    whole = carrel("logs", "--full", str(output["n"]), last["execution_id"])
    assert whole == b"".join(b"line %d\n" % i for i in range(100000))


def test_follow(carrel, box):
    code = "import time\nfor i in range(40):\n    print('tick', i, flush=True)\n    time.sleep(0.1)\nraise SystemExit(9)"
    runner = carrel.start("run", "--sandbox", box, "-c", code, stdout=subprocess.PIPE)
    assert runner.stdout.readline() == b"tick 0\n"
    [last] = json.loads(carrel("logs", "--json", "-n", "1", box))
    assert last["status"] == "running", last
    follower = carrel.start("logs", "-f", last["execution_id"], stdout=subprocess.PIPE)
    leaver = carrel.start("logs", "-f", box, stdout=subprocess.PIPE)
    lines = iter(leaver.stdout.readline, b"")
    assert b"tick 3\n" in lines
    leaver.send_signal(signal.SIGINT)
    assert leaver.wait(PATIENCE_S) == 130, "Ctrl-C leaves"
    out, _ = follower.communicate(timeout=PATIENCE_S)
    assert follower.returncode == 9, "the code's own exit code"
    assert [l for l in out.splitlines() if l.startswith(b"tick")] == [b"tick %d" % i for i in range(40)], out
    runner.communicate(timeout=PATIENCE_S)
    assert runner.returncode == 9, "the code went on"
    leaver.stdout.close()


def test_shell_piped(carrel, box):
    script = ("cd /tmp; x='a b'; export Y=\"q'z\"; f() { echo \"f $1\"; }; alias hi='echo hi'\n"
              "echo \"$PWD $x $Y\"; f 1\n"
              "hi; false\n"
              "echo $?\n"
              "printf 'gr\u00fc\u00dfe\\n'\n"
              "sh -c 'exit 5'\n")
    out = carrel("shell", box, stdin=script.encode(), code=5)
    assert out == "/tmp a b q'z\nf 1\nhi\n1\ngr\u00fc\u00dfe\n".encode(), out
    carrel("shell", box, stdin=b"true\nexit 4\necho never\n", code=4)
    assert carrel("exec", box, "--", "sh", "-c", "ls -d /tmp/.carrel-shell* 2>/dev/null | wc -l") == b"0\n", "nothing is left there"
    carrel("shell", "sbx-never", stdin=b"true\n", code=1)


def test_shell_typed(carrel, box):
    with Typist([CARREL, "shell", box], carrel.env, carrel.d) as t:
        t.wait(r":~\$ ")
        t.type("echx\x7fo $((6*6))\x1b[D\x1b[D\x1b[D7\x1b[3~\r")
        t.wait(r"\r\n42\r\n")
        t.wait(r":~\$ ")
        t.type("cd /usr/lib\r")
        t.wait(r":/usr/lib\$ ")
        t.type("sh -c 'exit 6'\r")
        t.wait(r"\[exit 6\]")
        t.wait(r":/usr/lib\$ ")
        t.type("\x1b[A\r")
        t.wait(r"\[exit 6\]")
        t.wait(r":/usr/lib\$ ")
        t.type("echo begun; sleep 600\r")
        t.wait(r"\nbegun\r\n")
        t.type("\x03")
        t.wait(r"\[exit 130\]")
        t.wait(r":/usr/lib\$ ")
        t.type("pgrep -c sleep\r")
        t.wait(r"\r\n0\r\n")
        t.wait(r":/usr/lib\$ ")
        t.type("nonsense\x03")
        t.wait(r"\^C\r?\n")
        t.type("echo done\r")
        t.wait(r"\r\ndone\r\n")
        t.wait(r":/usr/lib\$ ")
        t.type("\x04")
        assert t.end() == 0


def test_owners(carrel):
    owner = carrel("owner", "create", "second", "--quota", "3").decode().strip()
    key = carrel("key", "create", owner, "--name", "laptop", "--expires", "1h").decode().strip()
    kid = re.search(r"carrel key rm (\S+)", carrel.err).group(1)
    assert re.fullmatch("e2b_[0-9a-f]{64}", key), key
    assert carrel("ls", "-q", CARREL_TOKEN=key) == b"", "another owner sees nothing of the first"
    carrel("owner", "create", "third", code=1, CARREL_TOKEN=key)
    [row] = [r for r in json.loads(carrel("owner", "ls", "--json")) if r["id"] == owner]
    assert row["name"] == "second" and owner.encode() in carrel("owner", "ls"), row
    assert [k["name"] for k in json.loads(carrel("key", "ls", owner, "--json"))] == ["laptop"]
    assert kid.encode() in carrel("key", "ls", owner) and key.encode() not in carrel("key", "ls", owner)
    assert carrel("key", "rm", kid).decode() == kid + "\n"
    carrel("ls", code=1, CARREL_TOKEN=key)
    carrel("key", "rm", "key-never", code=1)


def main():
    with Appliance() as a, tempfile.TemporaryDirectory(prefix="carrel-command-") as d:
        carrel = Command(a, d)
        began = time.monotonic()
        box = test_files(carrel, d)
        for test, *args in ((test_codes, box), (test_lists, box), (test_logs, box), (test_follow, box),
                            (test_shell_piped, box), (test_shell_typed, box), (test_owners,)):
            test(carrel, *args)
            print(f"{test.__name__} {time.monotonic() - began:.1f} s", flush=True)
        assert carrel("kill", box).decode() == box + "\n"
        assert box not in carrel("ls", "-q").decode()
        assert b"1461 days" in carrel("logs", box), "also after its end"
        carrel("exec", box, "--", "true", code=1)


main()
