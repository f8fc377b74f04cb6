"""Where a sandbox has a kernel of its own, whoever is root inside may do with it what he likes: it is the only one that
ends, and by a name. In the engine jail nobody becomes root (tests/lib/hostile/surface.py)."""
import contextlib
import json
import os
import subprocess
import tempfile
import time

from appliance import TOP, Refused, end, run, text
from hostile.bench import Case

ROOT = "root"  # the template's name
SETUP = "#!/bin/sh\nset -eu\npasswd --delete root >/dev/null\n"
ENDS = r"^crashed\("


def template(b):
    """python, with a root that has no password: as "root": true of a base."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in (("template.conf", "SETUP=setup\n"), ("setup", SETUP)):
            path = os.path.join(folder, name)
            with open(path, "w", encoding="ascii") as f:
                f.write(content)
            os.chmod(path, 0o755)
        done = subprocess.run([os.path.join(TOP, "build", "carrel"), "template", "build", folder, "--name", ROOT],
                              env=dict(os.environ, STATE=b.a.state), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done
    b.root_template = ROOT


def as_root(shell):
    """A cell that runs it as root, and goes on whatever came of it."""
    return f"import subprocess\nprint(subprocess.run(['su', '-c', {shell!r}], stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout)"


def python(code):
    return f"python3 -c '{code}'"


SYSCALL = "import ctypes; ctypes.CDLL(None).syscall({})"
HALT = SYSCALL.format("169, 0xfee1dead, 672274793, 0xcdef0123, None")
POWEROFF = SYSCALL.format("169, 0xfee1dead, 672274793, 0x4321fedc, None")
REBOOT = SYSCALL.format("169, 0xfee1dead, 672274793, 0x1234567, None")
# Its own code overwritten where it lies.
AGENT_POKED = ("import re; m = open(\"/proc/1/mem\", \"r+b\", 0); "
               "[(m.seek(int(a, 16)), m.write(b\"\\xcc\" * (int(z, 16) - int(a, 16)))) for a, z in "
               "re.findall(\"(?m)^(\\w+)-(\\w+) r-xp .*carrel-agent\", open(\"/proc/1/maps\").read())]")
REAL_TIME = ("import os; open(\"/proc/sys/kernel/sched_rt_runtime_us\", \"w\").write(\"-1\"); "
             "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99)); [os.fork() for _ in range(4)]\nwhile True: pass")
CLOCK = "date -s 2001-01-01; date -s 2090-01-01; cat /proc/uptime; date +%Y"
MOUNTS = ("mount -t tmpfs none /home/user; mount -t tmpfs none /tmp; mount -o remount,ro /; umount -l /sys; mount -t tmpfs none /usr/lib/carrel; "
          "umount -l /dev/shm; echo done")
UNBIND = "for d in /sys/bus/virtio/drivers/virtio_console/virtio*; do echo ${d##*/} >/sys/bus/virtio/drivers/virtio_console/unbind; done"
# Its end of the link can be opened once, and process 1 has it: by its own descriptor, as only root can have it.
GARBAGE = ("import ctypes, os\none = os.pidfd_open(1)\n"
           "port = next(n for n in os.listdir(\"/proc/1/fd\") if \"vport\" in os.readlink(\"/proc/1/fd/\" + n))\n"
           "fd = ctypes.CDLL(None).syscall(438, one, int(port), 0)\nprint(sum(os.write(fd, os.urandom(8192)) for _ in range({})), flush=True)\n")
GARBAGE_PIECES = 40
CONSOLE = ("import os, time\nfd, until = os.open(\"/dev/ttyS0\", os.O_WRONLY), time.monotonic() + {}\n"
           "while time.monotonic() < until: os.write(fd, b\"x\" * 4096)\n")
CONSOLE_S, CONSOLE_MAX = 6, 1 << 17  # twice KEEPER_LOG_MAX
# All of its own disk, under the file system that is in use.
DISK_SPOILT = ("import os\nd = os.open(\"/dev/vdb\", os.O_WRONLY)\n"
               "for at in range(0, os.lseek(d, 0, 2), 1 << 20): os.pwrite(d, os.urandom(1 << 16), at)\nos.fsync(d); print(\"spoilt\")\n"
               "open(\"/proc/sys/vm/drop_caches\", \"w\").write(\"3\"); os.sync()")
DISKS_AWAY = ("for d in /sys/bus/virtio/drivers/virtio_blk/virtio*; do echo ${d##*/} >/sys/bus/virtio/drivers/virtio_blk/unbind; done; "
              "echo 3 >/proc/sys/vm/drop_caches; echo away")
DISKS = ("import os\nfor d in (\"/dev/vda\", \"/dev/vdb\"):\n    try: os.pwrite(os.open(d, os.O_WRONLY), b\"x\" * 4096, 1 << 20); print(d, \"written\")\n"
         "    except OSError as e: print(d, e.errno)\n")
ROOT_BOMB = ("import os; open(\"/sys/fs/cgroup/cgroup.procs\", \"w\").write(\"0\"); open(\"/proc/self/oom_score_adj\", \"w\").write(\"-1000\")\n"
             "x = []\nwhile True: x.append(bytearray(b\"1\") * (1 << 24))")


def disks(said, b):
    """Of its disks only its own is written to; the image is everybody's."""
    assert "/dev/vda written" not in said or "/dev/vdb written" not in said, said
    assert "written" in said, said


def clock_is_its_own(b, s):
    """Set to anything, what comes after works, and the host's times are the host's."""
    began = time.time()
    assert "2090" in run(b.a, s, as_root(CLOCK))
    events = b.a.execute(s, "import time\ntime.sleep(0.2)\nprint(time.gmtime().tm_year)")
    assert text(events) == "2090\n" and 0 < end(events)["duration_ms"] < 60000, events
    row = b.a.json("GET", f"/v1/sandboxes/{s}/executions?limit=1")["executions"][0]
    assert row["ended_at"][:4] == time.strftime("%Y", time.gmtime(began)), row
    b.a.put(s, "then", b"x")
    assert b.a.get(s, "then") == b"x"
    b.a.json("POST", f"/v1/sandboxes/{s}/pause", {})
    b.a.json("POST", f"/v1/sandboxes/{s}/resume", {})
    year = int(run(b.a, s, "import time\nprint(time.gmtime().tm_year)"))
    assert year == time.gmtime().tm_year, year


def stands_still(code):
    """What does not answer any more is ended by its deadline at the latest, and its cell with it."""
    def drive(b, s):
        b.a.json("POST", f"/v1/sandboxes/{s}/timeout", {"timeout_s": 12})
        last = end(b.a.execute(s, code))
        assert last["status"] in ("died", "cancelled"), last
    return drive


def console(b, s):
    """What the host keeps of it has an end."""
    run(b.a, s, as_root(python(CONSOLE.format(CONSOLE_S))))
    kept = os.stat(os.path.join(b.a.state, "run", s, "console.log")).st_size
    assert CONSOLE_MAX // 8 < kept < CONSOLE_MAX, kept


def garbage(said, _):
    assert said.split() == [str(GARBAGE_PIECES * 8192)], said


def hurts_itself(shell, word):
    """Only itself is hurt: what it is asked for then is done or refused, in time."""
    def drive(b, s):
        events = b.a.execute(s, as_root(shell))
        # Without its disk the kernel may not even find its own code any more.
        assert word in text(events) or end(events).get("signal") == "SIGBUS", events
        for language, code in (("python", "print(1)"), ("bash", "echo 1"), ("python", "import os; os._exit(1)"), ("python", "print(2)")):
            with contextlib.suppress(Refused):
                end(b.a.execute(s, code, language=language, timeout_s=30))
        assert json.loads(b.a.request("GET", "/healthz")[1])["ready"]
        b.a.kill(s)
    return drive


CASES = [
    Case("root: panic", as_root("echo c >/proc/sysrq-trigger"), root=True, status="died", ends=ENDS + ".*anic"),
    Case("root: reboot", as_root(python(REBOOT)), root=True, status="died", ends=ENDS),
    Case("root: power off", as_root(python(POWEROFF)), root=True, status="died", ends=ENDS),
    Case("root: halt", drive=stands_still(as_root(python(HALT))), root=True, ends="^(deadline|crashed)"),
    Case("root: process 1 overwritten", as_root(python(AGENT_POKED)), root=True, status="died", ends=ENDS),
    Case("root: memory bomb above all limits", drive=stands_still(as_root(python(ROOT_BOMB))), root=True, ends="^(deadline|crashed|out-of-memory)"),
    Case("root: real-time loops without a bound", drive=stands_still(as_root(python(REAL_TIME))), root=True, ends="^(deadline|crashed)"),
    Case("root: clock", drive=clock_is_its_own, root=True),
    Case("root: mounts", drive=hurts_itself(MOUNTS, "done"), root=True, ends="^asked"),
    Case("root: link cut inside", drive=stands_still(as_root(UNBIND) + "\nwhile True: pass"), root=True, ends="^(deadline|crashed|protocol-error)"),
    Case("root: garbage to the link", as_root(python(GARBAGE.format(GARBAGE_PIECES))), root=True, seen=garbage),
    Case("root: garbage to the link without end", drive=stands_still(as_root(python(GARBAGE.format(1 << 40)))), root=True,
         ends="^(deadline|protocol-error)"),
    Case("root: flood of the console", drive=console, root=True),
    Case("root: writes to the disks", as_root(python(DISKS)), root=True, seen=disks),
    Case("root: its disk spoilt", drive=hurts_itself(python(DISK_SPOILT), "spoilt"), root=True, ends="^asked"),
    Case("root: disks taken away", drive=hurts_itself(DISKS_AWAY, "away"), root=True, ends="^asked"),
]
