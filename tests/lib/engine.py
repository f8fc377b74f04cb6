"""Machines without an appliance: carrel-spawn, an engine driven line by line, a guest that answers lines.

    with Host() as host:
        d = host.driver()
        d.start("one", "template", host.files("one", template=True))
        d.wait("started one")
        g = host.guest("one"); g.ask("ping")

Leaving the block ends carrel-spawn as `make run` does and checks that nothing is left.
"""
import array
import contextlib
import glob
import os
import queue
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from images import CACHE, newest_image

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, "build")
LAB = os.environ.get("CARREL_LAB")
SKIP = 77
CLIENT_UID = 64811  # stands for carreld's user
UID_BASE = 1879052288  # the sandboxes' users
MEMORY_MB = 128
WAIT_S = 90  # under load a boot in software emulation is slow; a test that passes does not wait

VERBS = {"start": 1, "stop": 2, "freeze": 3, "thaw": 4, "stat": 5, "deadline": 6, "forget": 7, "pages": 8}
REQUEST = struct.Struct("<IIQ40sIIIIIIIIQ64s")
REPLY = struct.Struct("<IIQ40siIQQ64s256s")


def skip(reason):
    print(reason)
    sys.exit(SKIP)


def cpio_file(name, data, mode=0o100755):
    def pad(b):
        return b + b"\0" * (-len(b) % 4)

    fields = (1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    header = b"070701" + b"".join(b"%08x" % f for f in fields)
    return pad(header + name.encode() + b"\0") + pad(data)


def image():
    """-> (vmlinux, initrd) of the newest image in the cache"""
    found = newest_image()
    if not found:
        skip(f"no guest image below {CACHE}: make run or make image makes one")
    return os.path.join(found, "vmlinux"), os.path.join(found, "initrd")


def run(*argv):
    subprocess.run(argv, check=True, cwd=TOP)


def processes(word):
    """Processes whose command line speaks of word."""
    found = []
    for entry in glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            with open(entry, "rb") as f:
                if word.encode() in f.read().replace(b"\0", b" "):
                    found.append(int(entry.split("/")[2]))
    return found


class Driver:
    def __init__(self, host, engine="tcg"):
        argv = ["setpriv", "--reuid", str(CLIENT_UID), "--regid", str(CLIENT_UID), "--clear-groups", "--",
                host.driver_program, engine, host.socket, host.run_dir]
        self.p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.p.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def say(self, *words):
        self.p.stdin.write(" ".join(str(w) for w in words) + "\n")

    def say_at_once(self, *lines):
        """One write: the engine hears the last before it can have done the first."""
        self.p.stdin.write("".join(line + "\n" for line in lines))

    def start(self, name, mode, files, deadline_ms=0, memory_mb=MEMORY_MB):
        f = dict.fromkeys(("ram", "state", "rootfs", "scratch", "kernel", "initrd", "pages", "guest"), "-") | files
        self.say("start", name, mode, f["ram"], f["state"], f["rootfs"], f["scratch"], f["kernel"], f["initrd"],
                 memory_mb, deadline_ms, f["pages"], f["guest"])

    def wait(self, prefix, timeout=WAIT_S):
        """The next line must begin so; returns it."""
        line = self.lines.get(timeout=timeout)
        assert line is not None and line.startswith(prefix), f"expected {prefix!r}, got {line!r}"
        return line

    def wait_all(self, prefixes, timeout=WAIT_S):
        """One line for each prefix, in any order."""
        left, lines = set(prefixes), {}
        while left:
            line = self.lines.get(timeout=timeout)
            hit = [p for p in left if line and line.startswith(p)]
            assert hit, f"expected one of {sorted(left)}, got {line!r}"
            left.remove(hit[0])
            lines[hit[0]] = line
        return lines

    def end(self):
        self.p.stdin.close()
        code = self.p.wait(timeout=30)
        assert code == 0, f"the driver ended with {code}"

    def kill(self):
        self.p.kill()
        self.p.wait()


class Guest:
    def __init__(self, path):
        self.path = path
        self.open()

    def open(self):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.settimeout(WAIT_S)
        self.s.connect(self.path)
        self.f = self.s.makefile("r")

    def reopen(self):
        self.close()
        self.open()

    def say(self, line):
        self.s.sendall(line.encode() + b"\n")

    def ask(self, line):
        self.say(line)
        return self.f.readline().rstrip("\n")

    def close(self):
        self.f.close()
        self.s.close()


class Host:
    def __init__(self, stop_on_exit=True, jail=True):
        if os.geteuid() != 0:
            skip("needs root: carrel-spawn makes namespaces and control groups")
        if not shutil.which("qemu-system-x86_64") and not LAB:
            skip("QEMU is not installed")
        self.kernel, base = image()
        self.stop_on_exit, self.jail = stop_on_exit, jail
        self.dir = tempfile.mkdtemp(prefix="carrel-engine-")
        os.chmod(self.dir, 0o755)
        self.run_dir = os.path.join(self.dir, "run")
        self.socket = os.path.join(self.dir, "spawn.sock")
        self.driver_program = os.path.join(self.dir, "driver")
        self.initrd = os.path.join(self.dir, "initrd")
        self.drivers = []
        self.spawn = None
        self._build(base)

    def _build(self, base_initrd):
        guest = os.path.join(BUILD, "lab", "guest")
        # In the lab's machine there is no compiler: they came with it.
        if not LAB:
            run("make", "-s", "build/carrel-spawn", "build/carrel-keeper", "build/carrel-preload.so", "build/carrel-vmm",
                "build/lab/guest", "build/lab/driver")
        shutil.copy(os.path.join(BUILD, "lab", "driver"), self.driver_program)
        with open(base_initrd, "rb") as f, open(guest, "rb") as g, open(self.initrd, "wb") as out:
            data = f.read()
            out.write(data + b"\0" * (-len(data) % 512))
            out.write(cpio_file("init", g.read()) + cpio_file("TRAILER!!!", b"", 0))

    def __enter__(self):
        self.start_spawn()
        return self

    def __exit__(self, kind, value, trace):
        for d in self.drivers:
            if d.p.poll() is None:
                d.kill()
        if kind is not None:
            self.show_logs()
        self.spawn.terminate()
        assert self.spawn.wait(timeout=30) == 0
        left = self.left()
        shutil.rmtree(self.dir)
        if kind is None:
            assert not left, f"left behind: {left}"

    def show_logs(self):
        for path in glob.glob(os.path.join(self.run_dir, "*", "*.log")):
            with open(path, "rb") as f:
                print(path, f.read()[-2000:].decode("utf-8", "replace"), file=sys.stderr)

    def start_spawn(self):
        argv = [os.path.join(BUILD, "carrel-spawn"), "--socket", self.socket, "--run-dir", self.run_dir,
                "--client-uid", str(CLIENT_UID), "--uid-base", str(UID_BASE), "--keeper",
                os.path.join(BUILD, "carrel-keeper"), "--preload", os.path.join(BUILD, "carrel-preload.so"),
                "--vmm", os.path.join(BUILD, "carrel-vmm")]
        argv += ["--stop-on-exit"] * self.stop_on_exit + ["--jail"] * self.jail
        self.spawn = subprocess.Popen(argv)
        end = time.monotonic() + 10
        while True:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
                s.connect(self.socket)
                return
            assert self.spawn.poll() is None and time.monotonic() < end, "carrel-spawn does not start"
            time.sleep(0.02)

    def kill_spawn(self):
        self.spawn.kill()
        self.spawn.wait()

    def driver(self, engine="tcg"):
        self.drivers.append(Driver(self, engine))
        return self.drivers[-1]

    def guest(self, name):
        return Guest(os.path.join(self.run_dir, name, "agent.sock"))

    # --- files ---

    def _file(self, name, size, head=b""):
        path = os.path.join(self.dir, name)
        with open(path, "wb") as f:
            f.write(head)
            f.truncate(size)
        os.chown(path, CLIENT_UID, CLIENT_UID)
        return path

    def empty_file(self, name):
        return self._file(name, 0)

    def copy_file(self, path, name):
        """A sparse copy that the driver may write."""
        copy = os.path.join(self.dir, name)
        run("cp", "--sparse=always", path, copy)
        os.chown(copy, CLIENT_UID, CLIENT_UID)
        return copy

    def files(self, name, template=False, memory_mb=MEMORY_MB):
        files = {"rootfs": self._file("rootfs", 1 << 20, b"ROOT"), "scratch": self._file(name + ".scratch", 64 << 20),
                 "kernel": self.kernel, "initrd": self.initrd}
        if template:
            files |= {"ram": self._file(name + ".ram", memory_mb << 20), "state": self._file(name + ".state", 0)}
        return files

    def clone_files(self, template, name):
        return {f: template[f] for f in ("ram", "state", "rootfs")} | {
            "scratch": self.copy_file(template["scratch"], name + ".scratch")}

    # --- what is there ---

    def keepers(self, name):
        return [p for p in processes("carrel-keeper " + name) if self._is(p, "carrel-keeper") and self._is_mine(p)]

    def keeper(self, name):
        found = self.keepers(name)
        assert len(found) == 1, f"keepers of {name}: {found}"
        return found[0]

    def qemu(self, name):
        with open(f"/proc/{self.keeper(name)}/task/{self.keeper(name)}/children", encoding="ascii") as f:
            return int(f.read().split()[0])

    @staticmethod
    def _is(pid, comm):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="utf-8") as f:
            return f.read().strip() == comm
        return False

    def _is_mine(self, pid):
        """Another test beside this one may have a sandbox of the same name."""
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cgroup", encoding="utf-8") as f:
            return self.cgroup_name() in f.read()
        return False

    def cgroup_name(self):
        st = os.stat(self.run_dir)
        return f"carrel-{st.st_dev:x}-{st.st_ino:x}"

    def left(self):
        left = [f"process {p}" for p in processes(self.dir)]
        with open("/proc/self/mountinfo", encoding="utf-8") as f:
            left += [f"mount {line}" for line in f if self.dir in line]
        left += [p for p in glob.glob(os.path.join(self.run_dir, "*", "*.sock"))]
        for top, dirs, _ in os.walk("/sys/fs/cgroup"):
            # With what is in it, which says why.
            left += [f"{p}: {[x[0] for x in os.walk(p)][1:]}" for d in dirs if d == self.cgroup_name() for p in [os.path.join(top, d)]]
        if os.path.exists(self.socket):
            left.append(self.socket)
        return left


class Raw:
    """carrel-spawn's protocol without an engine."""

    def __init__(self, host):
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.s.settimeout(WAIT_S)
        self.s.connect(host.socket)
        self.serial = 0

    def send(self, data, fds=()):
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.s.sendmsg([data], rights)

    def reply(self):
        v = REPLY.unpack(self.s.recv(1024))
        return {"verb": v[1], "serial": v[2], "id": v[3].split(b"\0")[0].decode(), "error": v[4], "running": v[5],
                "memory": v[6], "cpu": v[7], "reason": v[8].split(b"\0")[0].decode(),
                "message": v[9].split(b"\0")[0].decode()}

    def ask(self, verb, name, reason="", deadline_ns=0):
        self.serial += 1
        self.send(REQUEST.pack(1, VERBS[verb], self.serial, name.encode(), 0, 0, 0, 0, 0, 0, 0, 0, deadline_ns,
                               reason.encode()))
        return self.answer()

    def answer(self):
        """The reply to the last request; events before it are passed over."""
        while True:
            reply = self.reply()
            if reply["serial"] == self.serial:
                return reply

    def ended(self, name):
        """The event of a sandbox's end."""
        while True:
            reply = self.reply()
            if reply["serial"] == 0 and reply["id"] == name:
                return reply

    def start(self, name, mode, files, host_memory_mb):
        order = ("ram", "state", "rootfs", "scratch", "kernel", "initrd")
        modes = {"boot": 1, "template": 2, "clone": 3}
        mask = sum(1 << i for i, f in enumerate(order) if f in files)
        fds = [os.open(files[f], os.O_RDWR if f == "scratch" else os.O_RDONLY) for f in order if f in files]
        self.serial += 1
        self.send(REQUEST.pack(1, VERBS["start"], self.serial, name.encode(), 1, modes[mode], mask, MEMORY_MB, 1,
                               host_memory_mb, 1200, 2000000, 0, b""), fds)
        for fd in fds:
            os.close(fd)
        return self.answer()

    def close(self):
        self.s.close()
