#!/usr/bin/python3
"""An installed Carrel under systemd and control groups v2: it starts, sandboxes survive restarts, deaths of its parts
and an upgrade, paused ones too, limits hold, INT ends all. Its sandboxes are the engine jail's and their cells Bash's: in
an emulated machine a guest's start takes minutes, and so does Python's with all its libraries."""
import glob
import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
URL = "http://127.0.0.1:8080"
# Everything is emulated.
START_S = 900
CALL_S = 300  # a create, a cell
# What `systemd-analyze security` may say at most, of 10: the helper that makes jails is root and has CAP_SYS_ADMIN.
EXPOSURE_MAX = 5.5
MEMORY_MB = 256


def journal():
    return subprocess.run(["journalctl", "-u", "carrel*", "-n", "60", "--no-pager"], capture_output=True, text=True, check=False).stdout


def run(*argv, check=True):
    p = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=START_S)
    if check and p.returncode != 0:
        raise AssertionError(f"{argv}: {p.returncode}\n{p.stdout}{p.stderr}\n{journal()}")
    return p.stdout


def call(method, path, body=None):
    with open("/var/lib/carrel/token", encoding="ascii") as f:
        token = f.read().strip()
    request = urllib.request.Request(URL + path, method=method, data=None if body is None else json.dumps(body).encode(),
                                     headers={"Authorization": "Bearer " + token, "Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=CALL_S) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as e:
        raise AssertionError(f"{method} {path}: {e.code} {e.read().decode()}\n{journal()}") from e
    except TimeoutError as e:
        raise AssertionError(f"{method} {path}: no answer\n{journal()}") from e


def result(sandbox, code):
    events = [json.loads(line) for line in
              call("POST", f"/v1/sandboxes/{sandbox}/execute", {"code": code, "language": "bash"}).splitlines()]
    return "".join(e.get("text", "") for e in events if e["type"] == "stdout"), events


def said(sandbox, code, want):
    got, events = result(sandbox, code)
    assert got == want, (code, got, events)


def ready():
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(URL + "/healthz", timeout=30) as answer:
                if json.load(answer).get("ready"):
                    return
        except (OSError, ValueError):
            pass
        time.sleep(0.2)  # a service of its own: only its port tells
    raise AssertionError("not ready")


def processes(name):
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                if os.path.basename(f.read().split(b"\0")[0]).decode() == name:
                    found.append(int(path.split("/")[2]))
        except OSError:
            pass
    return sorted(found)


def install():
    run(os.path.join(TOP, "conf", "install"), "", "/usr")
    for unit in ("carrel", "carrel-image"):
        folder = f"/etc/systemd/system/{unit}.service.d"
        os.makedirs(folder, exist_ok=True)
        settings = {n: os.environ[n] for n in ("CARREL_IMAGE", "CARREL_CACHE")} | {"ENGINE": "jail", "POOL": "0"}
        with open(os.path.join(folder, "lab.conf"), "w", encoding="ascii") as f:
            f.write("[Service]\n" + "".join(f"Environment={n}={v}\n" for n, v in settings.items()))
    run("systemctl", "daemon-reload")
    # The outer machine's own disk has no room for sandboxes.
    os.makedirs("/var/lib/carrel", exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", "size=4g,mode=0755", "carrel", "/var/lib/carrel")


def survives(sandbox):
    keepers = processes("carrel-keeper")
    for i, what in enumerate(("restart", "death of carreld", "death of the launcher", "upgrade")):
        began = time.monotonic()
        if what == "upgrade":
            run(os.path.join(TOP, "conf", "install"), "", "/usr")
            run("systemctl", "restart", "carrel.service")
        elif what == "restart":
            run("systemctl", "restart", "carrel.service")
        else:
            killed = processes("carreld")
            if what == "death of carreld":
                os.kill(killed[0], 9)
            else:
                run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "carrel.service")
            gone(killed)
        ready()
        said(sandbox, "echo $((++x))", f"{42 + i}\n")
        print(f"{what}: on again in {time.monotonic() - began:.0f} s", flush=True)
    assert set(processes("carrel-keeper")) >= set(keepers), "the sandbox's keeper is another"


def gone(pids):
    deadline = time.monotonic() + START_S
    while any(os.path.exists(f"/proc/{p}") for p in pids):
        assert time.monotonic() < deadline, pids
        time.sleep(0.05)


def paused_over_an_upgrade(sandbox):
    call("POST", f"/v1/sandboxes/{sandbox}/pause", {})
    run(os.path.join(TOP, "conf", "install"), "", "/usr")
    run("systemctl", "restart", "carrel.service")
    ready()
    call("POST", f"/v1/sandboxes/{sandbox}/resume", {"timeout_s": 3600})
    said(sandbox, "echo $x", "45\n")
    print("paused over an upgrade", flush=True)


def limits_hold(sandbox):
    """On control groups v2; the tests of the engine hold them on v1."""
    other = json.loads(call("POST", "/v1/sandboxes", {"timeout_s": 3600, "limits": {"memory_mb": MEMORY_MB}}))["id"]
    said(other, f"python3 -c 'bytearray(b\"x\") * ({2 * MEMORY_MB} << 20)'; echo $?", "137\n")
    bomb = """
import os, signal
try:
    while True:
        if os.fork() == 0: signal.pause()
except OSError as e: print(e.errno)
os.killpg(0, signal.SIGKILL)
"""
    said(other, f"setsid -w python3 -uc '{bomb}'", "11\n")
    call("DELETE", f"/v1/sandboxes/{other}")
    said(sandbox, "echo $x", "45\n")
    print("limits hold", flush=True)


def exposure_is_bounded():
    security = run("systemd-analyze", "security", "--no-pager", "carrel.service", check=False)
    [said] = re.findall(r"Overall exposure level for carrel.service: ([0-9.]+)", security)
    print(f"exposure {said} of 10", flush=True)
    exposure = float(said)
    assert exposure <= EXPOSURE_MAX, security


def int_ends_all():
    run("systemctl", "kill", "--kill-whom=main", "--signal=INT", "carrel.service")
    names = ("carreld", "carrel-spawn", "carrel-keeper", "carrel-agent", "nginx")
    gone([p for n in names for p in processes(n)])
    assert not glob.glob("/sys/fs/cgroup/carrel-*"), glob.glob("/sys/fs/cgroup/carrel-*")
    with open("/proc/mounts", encoding="utf-8") as f:
        assert "/run/carrel-" not in f.read()


def main():
    if not os.path.isdir("/run/systemd/system") or not os.environ.get("CARREL_LAB"):
        print("skipped: this installs a service: only in the lab's machine")
        sys.exit(77)
    install()
    began = time.monotonic()
    run("systemctl", "start", "carrel.service")
    print(f"started in {time.monotonic() - began:.0f} s", flush=True)
    sandbox = json.loads(call("POST", "/v1/sandboxes", {"timeout_s": 3600}))["id"]
    said(sandbox, "x=41; echo made", "made\n")
    survives(sandbox)
    paused_over_an_upgrade(sandbox)
    limits_hold(sandbox)
    exposure_is_bounded()
    int_ends_all()


main()
