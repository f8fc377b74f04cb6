#!/usr/bin/python3
"""The engine jail from inside: who one is there, and what one sees of the host. What one may ask of its kernel and use
up of it: tests/integration/hostile.py."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import Appliance, run  # noqa: E402

MEMORY_MB = 512

STATUS = """
import json
print(json.dumps({l.split(':')[0]: l.split(':', 1)[1].strip() for l in open('/proc/self/status')}))
"""

SEEN = """
import glob, json, os, socket, struct
def names(path):
    try: return sorted(os.listdir(path))
    except OSError as e: return e.strerror
def read(path, n=4096):
    try: return open(path, errors='replace').read(n)
    except OSError as e: return e.strerror
def write(path, text):
    try:
        if os.path.exists(path) and os.stat(path).st_rdev == os.makedev(1, 3): return 'null'
        with open(path, 'w') as f: f.write(text)
        return 'written'
    except OSError as e: return e.strerror
print(json.dumps({
    'mounts': read('/proc/self/mountinfo', 1 << 16), 'interfaces': [n for _, n in socket.if_nameindex()],
    'routes': read('/proc/net/route').splitlines()[1:], 'hostname': socket.gethostname(),
    'processes': {p: read(f'/proc/{p}/comm').strip() for p in names('/proc') if p.isdigit()},
    'dev': names('/dev'), 'root': names('/'), 'sys': names('/sys'), 'kcore': read('/proc/kcore'),
    'sysrq': write('/proc/sysrq-trigger', 'h'), 'core_pattern': write('/proc/sys/kernel/core_pattern', '|/bin/sh'),
    'ip_forward': write('/proc/sys/net/ipv4/ip_forward', '1'), 'oom': write('/proc/self/oom_score_adj', '-900'),
    'cgroup_procs': write('/sys/fs/cgroup/cgroup.procs', '0'), 'pids_max': write('/sys/fs/cgroup/work/pids.max', 'max'),
    'fds': sorted(os.readlink(f) for f in glob.glob('/proc/self/fd/*') if os.path.islink(f)),
    'agent_root': names('/proc/1/root'), 'agent_fds': names('/proc/1/fd'), 'agent_env': read('/proc/1/environ'),
    'etc_shadow': read('/etc/shadow'), 'usr': write('/usr/bin/carrel-test', 'x'), 'boot_id': read('/proc/sys/kernel/random/boot_id'),
    'machine_id': read('/etc/machine-id'), 'cgroup': read('/proc/self/cgroup'), 'cmdline': read('/proc/cmdline'),
    'uid_map': read('/proc/self/uid_map').split()}))
"""


def asked(a, s, code):
    return json.loads(run(a, s, code))


def may_spare():
    with open("/proc/self/status", encoding="ascii") as f:
        caps = int(next(line for line in f if line.startswith("CapEff")).split()[1], 16)
    return caps >> 24 & 1  # CAP_SYS_RESOURCE


def who_one_is(a, s):
    status = asked(a, s, STATUS)
    assert status["Uid"].split() == ["1000"] * 4 and status["Gid"].split() == ["1000"] * 4, status
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == int(status["CapInh"], 16) == int(status["CapAmb"], 16) == 0
    # chown, dac_override, fowner, fsetid, kill, setgid, setuid, sys_ptrace: over the sandbox's own users only
    assert int(status["CapBnd"], 16) == 0x800fb, status["CapBnd"]
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", status


def what_one_sees(a, s):
    seen = asked(a, s, SEEN)
    assert os.path.basename(a.state) not in seen["mounts"] and "/dev/vd" not in seen["mounts"], seen["mounts"]
    assert seen["interfaces"] == ["lo"] and seen["routes"] == [], seen
    assert seen["hostname"] == s == run(a, s, "print(open('/etc/hostname').read().strip())").strip()
    assert seen["processes"]["1"] == "carrel-agent" and len(seen["processes"]) < 12, seen["processes"]
    assert all(name.startswith(("carrel-", "python", "sh", "bash", "iou-")) for name in seen["processes"].values()), seen["processes"]
    assert seen["dev"] == sorted(("fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty",
                                  "urandom", "zero")), seen["dev"]
    assert seen["sys"] == ["devices", "fs"] and seen["kcore"] in ("", "Permission denied", "No such file or directory") and seen["cmdline"] == "", seen
    # Who may not set the least score himself cannot give it to another.
    spared = ["oom"] if may_spare() else []
    for what in ["sysrq", "core_pattern", "ip_forward", "cgroup_procs", "pids_max", "usr"] + spared:
        assert seen[what] != "written", (what, seen[what])
    for what in ("agent_root", "agent_fds", "agent_env", "etc_shadow"):
        assert seen[what] == "Permission denied", (what, seen[what])
    assert not [f for f in seen["fds"] if a.state in f], seen["fds"]
    assert seen["uid_map"][0] == "0" and int(seen["uid_map"][1]) > 1 << 16 and seen["uid_map"][2] == "65536", seen["uid_map"]
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
        assert seen["boot_id"].strip() and seen["boot_id"] != f.read()
    assert len(seen["machine_id"].strip()) == 32
    assert "carrel-" not in seen["cgroup"] and "sbx" not in seen["cgroup"], seen["cgroup"]


def a_shell_works(a, s):
    """A terminal, sockets of its own, threads, pipes, signals: what ordinary programs want."""
    code = """
import subprocess, socket, threading, multiprocessing, os, pty, tempfile
print(subprocess.run('echo $((6*7)) | tr 4 5; id -un; touch f && ls f && rm f', shell=True, capture_output=True, text=True).stdout)
l = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(l.getsockname()); p, _ = l.accept()
c.send(b'over lo'); print(p.recv(10).decode())
with multiprocessing.get_context('fork').Pool(2) as pool: print(sum(pool.map(abs, range(-4, 0))))
m, t = pty.openpty(); print(os.ttyname(t).startswith('/dev/pts/'))
with tempfile.NamedTemporaryFile() as f: os.fsync(f.fileno())
os.sync(); print('done')
"""
    assert run(a, s, code).split() == ["52", "user", "f", "over", "lo", "10", "True", "done"], run(a, s, code)


def two_do_not_meet(a, s):
    """Another sandbox has other users, and neither sees the other's processes or files."""
    other = a.create(limits={"memory_mb": MEMORY_MB})["id"]
    run(a, s, "open('/tmp/mine', 'w').write('x')")
    mine, theirs = (asked(a, x, SEEN) for x in (s, other))
    assert mine["uid_map"][1] != theirs["uid_map"][1], mine["uid_map"]
    assert run(a, other, "import os; print(os.path.exists('/tmp/mine'))") == "False\n"
    assert mine["boot_id"] != theirs["boot_id"] and mine["machine_id"] != theirs["machine_id"]
    a.kill(other)


PARTS = (who_one_is, what_one_sees, a_shell_works, two_do_not_meet)


def main():
    with Appliance(ENGINE="jail") as a:
        s = a.create(timeout_s=3600, limits={"memory_mb": MEMORY_MB})["id"]
        for part in PARTS if not sys.argv[1:] else [globals()[n] for n in sys.argv[1:]]:
            part(a, s)
            print(part.__name__, flush=True)
        a.kill(s)


main()
