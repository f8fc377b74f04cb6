"""What is used up: processes, threads, memory, disk, inodes, descriptors, output, the processor."""
import ctypes
import json
import os
import re
import time

from appliance import end, run, text
from hostile.bench import DISK_MB, Case

PIDS_MAX = 512  # IDENTITY_PIDS
FILES_MAX = 65536  # AGENT_FILES_MAX
INODES_LEAST, INODES_MOST = 2000, 4000
FLOOD_S = 4
LOOSE_S = 3  # a bomb has all it can have by then
FLOOD_GROWTH_MB = 96  # of carreld, by what it keeps of one flood and sends on

FORK_BOMB = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"

# Nothing of it is the cell's any more, and it hears no signal but the last.
FORK_BOMB_LOOSE = """
import os, signal, time
if os.fork() == 0:
    for n in range(1, signal.NSIG):
        try: signal.signal(n, signal.SIG_IGN)
        except (OSError, ValueError): pass
    os.setsid()
    while True:
        try:
            if os.fork() == 0: os.setsid()
        except OSError: time.sleep(0.05)
"""

PROCESSES = """
import os, signal
made = []
try:
    while True: made.append(os.posix_spawn('/bin/sleep', ['sleep', '600'], {}))
except OSError as e: print(len(made), e.errno)
for pid in made: os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)
"""

THREADS = """
import threading
gone, made = threading.Event(), []
try:
    while True:
        t = threading.Thread(target=gone.wait); t.start(); made.append(t)
except RuntimeError: print(len(made))
gone.set()
for t in made: t.join()
"""

MEMORY = "x = []\nwhile True: x.append(bytearray(b'1') * (1 << 24))"

# Each for itself small, all together far too much; the cell itself stays small.
MEMORY_CHILDREN = """
import os, time
left = []
for _ in range(60):
    left.append(os.fork())
    if left[-1] == 0:
        x = bytearray(b'1') * (32 << 20)
        time.sleep(600)
        os._exit(0)
time.sleep(5)
"""


def fill(path):
    """Writes there until it may not, and says why and how many MiB that were."""
    return f"""
import errno, os
n = 0
try:
    with open('{path}', 'wb') as f:
        while True: n += f.write(b'x' * (1 << 20))
except OSError as e: print(errno.errorcode[e.errno], n >> 20)
"""


MEMORY_FILE = fill("/dev/shm/x")
MEMORY_FILE_AWAY = "import os\nif os.path.exists('/dev/shm/x'): os.unlink('/dev/shm/x')"

# Shared memory that no process holds: nobody's end gives it back.
MEMORY_SYSV = """
import ctypes, errno
c = ctypes.CDLL(None, use_errno=True)
c.shmat.restype = ctypes.c_void_p
n = 0
while True:
    i = c.shmget(0, 16 << 20, 0o1600)
    if i < 0: break
    p = c.shmat(i, None, 0)
    if p in (None, ctypes.c_void_p(-1).value): break
    ctypes.memset(p, 1, 16 << 20); c.shmdt(ctypes.c_void_p(p)); n += 16
print(errno.errorcode[ctypes.get_errno()], n)
"""

MEMORY_MEMFD = """
import os
fds = []
while True:
    fds.append(os.memfd_create('x'))
    os.write(fds[-1], b'x' * (1 << 24))
"""

# What the kernel keeps for them is memory, too.
MEMORY_PIPES = """
import errno, fcntl, os, resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
n, fds = 0, []
try:
    while True:
        r, w = os.pipe2(os.O_NONBLOCK)
        fds += [r, w]
        try: fcntl.fcntl(w, 1031, 1 << 20)
        except OSError: pass
        try:
            while True: n += os.write(w, b'x' * (1 << 16))
        except BlockingIOError: pass
except OSError as e: print(errno.errorcode[e.errno], n >> 20)
for fd in fds: os.close(fd)
"""

DISK = fill("/home/user/fill") + """
try: open('/home/user/more', 'w').write('x' * 100000); print('fits')
except OSError as e: print(errno.errorcode[e.errno])
"""
DISK_AWAY = "import os\nfor n in ('fill', 'more'):\n    if os.path.exists('/home/user/' + n): os.unlink('/home/user/' + n)\n" \
            "open('/home/user/after', 'w').write('x' * 100000)"

INODES = """
import errno, os
os.makedirs('/tmp/many')
n = 0
try:
    while True:
        os.close(os.open(f'/tmp/many/{n}', os.O_CREAT | os.O_WRONLY)); n += 1
except OSError as e: print(errno.errorcode[e.errno], n)
"""
INODES_AWAY = "import shutil\nshutil.rmtree('/tmp/many')\nn = open('/tmp/after', 'w').write('x')"

# Where the kernels' sockets and the sandbox's names lie: its folders for kernels are the user's.
RUN = """
import errno, glob, os
n = 0
for d in glob.glob('/run/carrel/kernels/*') + ['/run', '/run/carrel']:
    try:
        with open(d + '/fill', 'wb') as f:
            while True: n += f.write(b'x' * (1 << 16))
    except OSError as e: print(errno.errorcode[e.errno])
print(n >> 20)
"""
RUN_AWAY = "import glob, os\nfor n in glob.glob('/run/carrel/kernels/*/fill'): os.unlink(n)"

DESCRIPTORS = """
import errno, os, resource
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
made = []
try:
    while True: made.append(os.open('/dev/null', os.O_RDONLY))
except OSError as e: print(len(made), errno.errorcode[e.errno])
for fd in made: os.close(fd)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
"""

# By children that stay: as many as there may be of them, with as many files as each may have.
DESCRIPTORS_LEFT = """
import os, resource, time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
left = []
for _ in range(12):
    left.append(os.fork())
    if left[-1] == 0:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        try:
            while True: os.open('/dev/null', os.O_RDONLY)
        except OSError: pass
        time.sleep(600)
        os._exit(0)
time.sleep(6)
"""
# What it left running.
CHILDREN_AWAY = """
import os, signal
for p in globals().pop('left', []):
    try:
        os.kill(p, signal.SIGKILL); os.waitpid(p, 0)
    except OSError: pass
"""

# Each user has so many of them, and whose user that is on the host matters.
INOTIFY = """
import ctypes, errno, os, time
c = ctypes.CDLL(None, use_errno=True)
n = 0
while n < 100000 and c.inotify_init1(0) >= 0: n += 1
print(n, errno.errorcode.get(ctypes.get_errno()), flush=True)
time.sleep(600)
"""
INOTIFY_ONE = "import ctypes, os\nfd = ctypes.CDLL(None).inotify_init1(0)\nprint(fd >= 0)\nif fd >= 0: os.close(fd)"

FLOODS = {
    "lines": "while True: print('x' * 200)",
    "long lines": "while True: print('x' * (1 << 20))",
    "errors": "import sys\nwhile True: print('e' * 5000, file=sys.stderr)",
    "displays": "while True: display({'text/plain': 'd' * 100000}, raw=True)",
    "a child's bytes": "import subprocess\nsubprocess.run(['cat', '/dev/urandom'])",
    "descriptor 1": "import os\nwhile True: os.write(1, b'y' * 65536)",
}

INTERRUPT_REFUSED = """
import time
while True:
    try:
        while True: time.sleep(1)
    except BaseException: pass
"""

BUSY = """
import errno, os, signal
def tried(what, *args):
    try: what(*args); return 'ok'
    except OSError as e: return errno.errorcode[e.errno]
import ctypes
c = ctypes.CDLL(None, use_errno=True)
def ioprio():
    if c.syscall(251, 1, 0, 1 << 13) < 0: raise OSError(ctypes.get_errno(), '')
def deadline():
    attr = (ctypes.c_uint64 * 6)(48 | 6 << 32, 0, 0, 9000000, 10000000, 10000000)
    if c.syscall(314, 0, attr, 0) < 0: raise OSError(ctypes.get_errno(), '')
print(tried(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(99)), tried(os.sched_setscheduler, 0, os.SCHED_RR, os.sched_param(1)),
      tried(os.nice, -20), tried(ioprio), tried(deadline), flush=True)
for _ in range(8):
    if os.fork() == 0: break
while True: pass
"""


def counted(least, most, *errors):
    """The cell says how far it came, and by which error it came no further."""
    def seen(said, bench):
        count, why = said.split()[:2]
        assert least <= int(count) <= most and why in errors, said
    return seen


def filled(least, most, *errors):
    def seen(said, bench):
        why, count = said.split()[:2]
        assert why in errors and least <= int(count) <= most, said
    return seen


def threads(said, _):
    assert 64 < int(said) < PIDS_MAX, said


def run_full(said, _):
    assert set(re.findall("[A-Z]+", said)) <= {"ENOSPC", "EACCES"} and "ENOSPC" in said, said
    assert int(said.split()[-1]) <= 16, said


def no_priority(said, _):
    assert said.split() == ["EPERM"] * 5, said


def loose_bomb(b, s):
    """Taken down with its sandbox, by whoever has had enough of it."""
    assert end(b.a.execute(s, FORK_BOMB_LOOSE))["status"] == "ok"
    time.sleep(LOOSE_S)
    assert run(b.a, b.neighbour, "print(kept)") == "the neighbour\n"
    b.a.kill(s)


def all_inotify(b, s):
    """One that takes all there are of a user takes none of another's, nor of the host's root."""
    events = b.a.events("POST", f"/v1/sandboxes/{s}/execute", {"code": INOTIFY})
    for e in events:
        if e["type"] == "stdout":
            n, why = e["text"].split()
            assert why == "EMFILE" and int(n) < 100000, e
            break
    assert run(b.a, b.neighbour, INOTIFY_ONE) == "True\n", "a neighbour can watch no file"
    fd = ctypes.CDLL(None, use_errno=True).inotify_init1(0)
    assert fd >= 0, "the host's root can watch no file"
    os.close(fd)
    for x in b.a.json("GET", f"/v1/sandboxes/{s}/executions?limit=1")["executions"]:
        b.a.request("POST", f"/v1/executions/{x['execution_id']}/interrupt")
    assert end(list(events))["status"] == "interrupted"


def resident_mb(b):
    with open(f"/proc/{b.a.pid_of('carreld')}/status", encoding="ascii") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1]) / 1024


def flood(code):
    """Bounded, told as cut short, stopped on time."""
    def drive(b, s):
        before = resident_mb(b)
        length = kinds = 0
        kinds, last = set(), None
        for e in b.a.events("POST", f"/v1/sandboxes/{s}/execute", {"code": code, "timeout_s": FLOOD_S}):
            kinds.add(e["type"])
            length += len(json.dumps(e))
            last = e
        assert last["status"] in ("timeout", "killed"), last
        assert resident_mb(b) < before + FLOOD_GROWTH_MB, (before, resident_mb(b))
    return drive


CASES = [
    Case("processes", PROCESSES, seen=counted(64, PIDS_MAX, "11"), native=True),
    Case("threads", THREADS, seen=threads),
    Case("fork bomb", FORK_BOMB, timeout_s=8, status="timeout|killed|died", may_end=True),
    Case("fork bomb that runs away", drive=loose_bomb, own={}, ends="^asked"),
    Case("memory bomb", MEMORY, status="died", reason="out-of-memory"),
    Case("memory bomb of many", MEMORY_CHILDREN, status="ok|died|timeout", after=CHILDREN_AWAY),
    Case("memory bomb in nameless files", MEMORY_MEMFD, status="died", reason="out-of-memory"),
    Case("memory in files", MEMORY_FILE, seen=lambda said, b: filled(32, b.memory_mb // 2, "ENOSPC")(said, b)),
    Case("memory bomb beside full files", MEMORY, status="died", reason="out-of-memory", after=MEMORY_FILE_AWAY),
    Case("memory in pipes", MEMORY_PIPES, status="ok|died"),
    Case("memory that nobody holds", MEMORY_SYSV, status="ok|died", own={}),
    Case("disk", DISK, seen=filled(DISK_MB // 4, DISK_MB, "ENOSPC"), after=DISK_AWAY),
    Case("inodes", INODES, seen=filled(INODES_LEAST, 1 << 20, "ENOSPC"), after=INODES_AWAY, native=True),
    Case("inodes up to a limit", INODES, seen=filled(INODES_LEAST, INODES_MOST, "ENOSPC", "EDQUOT"), after=INODES_AWAY, own={"limits": {"inodes": INODES_MOST}}),
    Case("memory of sockets", RUN, seen=run_full, after=RUN_AWAY),
    Case("descriptors", DESCRIPTORS, seen=counted(1000, FILES_MAX, "EMFILE", "ENFILE")),
    Case("descriptors that stay", DESCRIPTORS_LEFT, own={}),
    Case("watches", drive=all_inotify),
    *[Case("flood of " + name, drive=flood(code)) for name, code in FLOODS.items()],
    Case("interrupt refused", INTERRUPT_REFUSED, timeout_s=3, status="timeout|killed"),
    Case("busy loops with priority", BUSY, timeout_s=10, status="timeout|killed", seen=no_priority),
]
