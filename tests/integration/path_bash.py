#!/usr/bin/python3
"""Bash through the whole path: a sandbox's shell, its ends, its files, a fork of it."""
import base64
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import TOP, Appliance, end, run, text  # noqa: E402


def bash(a, s, code, **spec):
    return run(a, s, code, language="bash", **spec)


def error(events):
    [e] = [e for e in events if e["type"] == "error"]
    return e["name"], e["value"]


def cells(a, s):
    began = time.monotonic()
    assert bash(a, s, "echo hello; id -un; pwd") == "hello\nuser\n/home/user\n"
    print(f"a first bash cell: {time.monotonic() - began:.2f} s")
    began = time.monotonic()
    assert bash(a, s, "x=41; f() { echo \"f $1\"; }; mkdir d; cd d; echo $((x + 1))") == "42\n"
    print(f"a second: {time.monotonic() - began:.2f} s")
    assert bash(a, s, "f $x; pwd") == "f 41\n/home/user/d\n"
    events = a.execute(s, "echo out; echo err >&2; (exit 3)", language="bash")
    assert (text(events), text(events, "stderr")) == ("out\n", "err\n")
    assert end(events)["status"] == "error" and error(events) == ("ExitStatus", "3")
    # An environment of one cell's own.
    assert bash(a, s, "echo $? $OWN; sh -c 'echo $OWN'", env={"OWN": "it's $(id)"}) == "3 it's $(id)\nit's $(id)\n"
    assert bash(a, s, "echo [${OWN-gone}]") == "[gone]\n"
    # Python beside it, with the same files.
    a.put(s, "table.csv", b"a,b\n1,2\n3,4\n")
    assert bash(a, s, "cut -d, -f2 ~/table.csv | tail -n +2 | paste -sd+ | xargs -I{} python3 -c 'print({})'") == "6\n"
    assert run(a, s, "print(open('table.csv').read().count(','))") == "3\n"


def shown(a, s):
    run(a, s, "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.savefig('p.png'); plt.close()")
    events = a.execute(s, "display ~/p.png", language="bash")
    [picture] = [e for e in events if e["type"] == "display"]
    assert base64.b64decode(picture["data"]["image/png"]) == a.get(s, "p.png"), picture["data"].keys()


def ends(a, s):
    before = bash(a, s, "echo $x $$").split()
    stream = a.events("POST", f"/v1/sandboxes/{s}/execute", {"code": "echo on; sleep 600", "language": "bash"})
    events = []
    for e in stream:
        events.append(e)
        if e["type"] == "stdout":
            a.request("POST", f"/v1/executions/{events[0]['execution_id']}/interrupt")
    assert end(events)["status"] == "interrupted", events
    assert bash(a, s, "echo $x $$").split() == before
    events = a.execute(s, "exit 5", language="bash")
    assert error(events) == ("ExitStatus", "5") and "A new one was started" in text(events, "stderr")
    assert bash(a, s, "echo $x").split() == before[:1]
    events = a.execute(s, "kill -9 $$", language="bash")
    assert error(events)[0] == "ShellDied", events
    # The kernel itself.
    events = a.execute(s, "kill -9 $PPID; sleep 9", language="bash")
    assert end(events)["status"] == "died", events
    assert bash(a, s, "echo anew") == "anew\n"
    made = a.json("POST", f"/v1/sandboxes/{s}/kernels", {"language": "bash"})
    assert made["language"] == "bash"
    assert run(a, s, "echo $x[]", kernel_id=made["id"]) == "[]\n"


def flood(a, s):
    events = a.execute(s, "for ((i = 0; i < 10000; i++)); do echo $i; done", language="bash")
    assert text(events) == "".join(f"{i}\n" for i in range(10000))
    assert len(events) < 500, len(events)


def forked(a, s):
    bash(a, s, "x=here; sleep 600 & job=$!")
    [copy] = a.json("POST", f"/v1/sandboxes/{s}/fork", {})["sandboxes"]
    # Neither the randomness of the shell it was copied from, nor less than its state.
    code = "kill -0 $job && echo $x $RANDOM-$RANDOM-$RANDOM"
    one, other = bash(a, s, code).split(), bash(a, copy["id"], code).split()
    assert one[0] == other[0] == "here" and one[1] != other[1], (one, other)


def command(a):
    script = os.path.join(a.state, "script.sh")
    with open(script, "w", encoding="ascii") as f:
        f.write("set -euo pipefail\necho from a script\nexit 7\n")
    env = dict(os.environ, CARREL_URL=f"http://127.0.0.1:{a.port}", CARREL_TOKEN=a.token)
    for language in [], ["--language", "bash"]:
        p = subprocess.run([os.path.join(TOP, "build", "carrel"), "run", *language, script], env=env,
                           capture_output=True, text=True, timeout=120)
        assert p.returncode == 7 and p.stdout == "from a script\n", p
    # What is said counts more than the name.
    p = subprocess.run([os.path.join(TOP, "build", "carrel"), "run", "--language", "python", script], env=env,
                       capture_output=True, text=True, timeout=120)
    assert p.returncode == 1 and "SyntaxError" in p.stderr, p


def main():
    with Appliance() as a:
        s = a.create(timeout_s=900)["id"]
        for test in (cells, shown, ends, flood, forked):
            began = time.monotonic()
            test(a, s)
            print(f"{test.__name__}: {time.monotonic() - began:.1f} s", flush=True)
        command(a)


main()
