"""Files that are not what they seem, or change while they are sent: what a path can reach is the sandbox's own, and every
answer comes in its time."""
import contextlib
import http.client
import json
import os
import tempfile
import threading
import time
import urllib.parse

from appliance import run
from hostile.bench import Case

ANSWER_S = 30  # for one small file, whatever it has turned into
LIST_S = 90  # of a folder as large as they come
RACE_S = 6
SECRET = "carrel-secret-of-the-host"
# Names by hard links, in memory: made in seconds.
LINKS = 60000
NAMES, NAMES_EMULATED = 1_000_000, 120_000

KINDS = """
import os, socket
os.makedirs('/home/user/odd', exist_ok=True); os.chdir('/home/user/odd')
os.mkfifo('fifo'); os.mkdir('folder'); socket.socket(socket.AF_UNIX).bind('socket')
os.symlink('/dev/zero', 'zero'); os.symlink('/dev/tty', 'tty'); os.symlink('fifo', 'to-fifo'); os.symlink('loop', 'loop')
os.symlink('/proc/self/environ', 'environ'); os.symlink('/proc/1/mem', 'mem'); os.symlink('/proc/kmsg', 'kmsg')
os.symlink('/etc/shadow', 'shadow'); os.symlink('/root/x', 'root'); os.symlink('nowhere/at/all', 'dangling')
os.symlink('/proc/self/fd/0', 'fd0'); os.symlink('/sys/kernel/notes', 'notes'); os.symlink('/proc/1/root/etc/shadow', 'root-of-one')
open('closed', 'w').write('x'); os.chmod('closed', 0); os.mkdir('dark'); os.chmod('dark', 0)
p = '.'
for _ in range(300):
    p += '/d'; os.mkdir(p)
import fcntl, signal
signal.signal(signal.SIGIO, signal.SIG_IGN)
open('leased', 'w').write('x')
lease = os.open('leased', os.O_RDWR)
try: fcntl.fcntl(lease, 1024, 1)
except OSError: pass
with open('sparse', 'w') as f: f.truncate(1 << 32)
os.chdir('/home/user')
"""
ODD = ("fifo", "folder", "socket", "zero", "tty", "to-fifo", "loop", "environ", "mem", "kmsg", "shadow", "root", "dangling", "fd0", "notes",
       "root-of-one", "closed", "dark/x", "leased")
ODD_AWAY = "import os, shutil\nfor n in ('odd/dark', 'odd/closed'):\n    if os.path.lexists(n): os.chmod(n, 0o700)\nshutil.rmtree('/home/user/odd', ignore_errors=True)"

# What a name stands for changes as fast as it can be changed; {secret} exists on the host alone.
RACE = """
import os, time
os.makedirs('/home/user/race/real', exist_ok=True); os.chdir('/home/user/race')
for n in ('file', 'real/file'): open(n, 'w').write('mine')
def swap(path, make):
    t = path + '.t'
    try: os.unlink(t)
    except OSError: pass
    try: make(t); os.rename(t, path)
    except OSError: pass
targets = [lambda t: open(t, 'w').write('mine'), lambda t: os.symlink({secret!r}, t), lambda t: os.symlink('/etc/shadow', t), os.mkfifo,
           lambda t: os.link('real/file', t), lambda t: os.symlink('/dev/zero', t), lambda t: os.symlink('real/file', t),
           lambda t: os.symlink('/proc/1/environ', t)]
until = time.monotonic() + {seconds}
while time.monotonic() < until:
    for make in targets:
        swap('file', make)
        swap('way', lambda t: os.symlink('real', t)); swap('way', lambda t: os.symlink('/etc', t)); swap('way', lambda t: os.symlink({folder!r}, t))
        # What is being sent lies there under a name of its own for a while.
        for n in os.listdir('.') + ['real/' + n for n in os.listdir('real')]:
            if '.carrel-' in n: swap(n, lambda t: os.symlink('/etc/shadow', t))
os.chdir('/home/user')
"""
RACE_AWAY = "import shutil\nshutil.rmtree('/home/user/race')"

# A file that grows, shrinks and goes while it is read.
SHIFTING = """
import os, time
until = time.monotonic() + {seconds}
while time.monotonic() < until:
    with open('shifting', 'wb') as f: f.write(b'x' * 3000000)
    os.truncate('shifting', 1000); os.truncate('shifting', 9000000)
    os.unlink('shifting')
"""

MANY = """
import os
os.makedirs('/dev/shm/many', exist_ok=True)
link, n = os.link, 0
for i in range(-(-{names} // {links})):
    first = f'/dev/shm/many/{{i:03d}}'
    open(first, 'w').close(); n += 1
    for j in range(1, min({links}, {names} - i * {links})):
        link(first, f'{{first}}-{{j}}'); n += 1
print(n)
"""


def address(s, path, what=""):
    return f"/v1/sandboxes/{s}/files{what}?path=" + urllib.parse.quote(path)


def asked(b, method, path, body=None, most=1 << 20):
    """-> (status, at most so many bytes, their error's code), within ANSWER_S"""
    began = time.monotonic()
    try:
        c, r = b.a.open(method, path, body, timeout=ANSWER_S)
        with contextlib.closing(c):
            data = r.read(most)
    except (http.client.IncompleteRead, http.client.RemoteDisconnected, ConnectionResetError):
        return 0, b"", None  # a file that turned shorter: cut off, and seen to be
    assert time.monotonic() - began < ANSWER_S, (method, path)
    code = json.loads(data).get("code") if r.status >= 400 else None
    return r.status, data, code


def odd_files(b, s):
    run(b.a, s, KINDS)
    for name in ODD:
        path = address(s, "odd/" + name)
        status, data, _ = asked(b, "GET", path)
        assert 400 <= status <= 409, (name, status, data[:80])
        status, data, _ = asked(b, "PUT", path, b"new")
        assert name in ("closed", "dangling", "leased", "notes") or 400 <= status <= 409, (name, status, data[:80])
    assert asked(b, "GET", address(s, "odd/sparse"), most=1 << 16)[0] == 200
    assert asked(b, "GET", address(s, "odd", "/list") + "&limit=1000")[0] == 200
    for path in ("/proc/self/fd", "/proc/1/task/1/fd", "/proc/1/map_files", "/proc/self/root/proc/1/fd", "/sys/kernel/debug", "odd/fifo", "odd/loop"):
        asked(b, "GET", address(s, path, "/list"))
    for path in ("odd/fifo/x", "/proc/self/fd/3", "/proc/self/mem", "/proc/sys/kernel/core_pattern", "/dev/null/x", "/dev/shm/../null", "/proc/1/cwd/etc/passwd",
                 "/sys/fs/cgroup/x", "/run/carrel/x", "/usr/lib/carrel/carrel-agent", "/etc/passwd"):
        status, data, _ = asked(b, "PUT", address(s, path), b"new")
        assert 400 <= status <= 409, (path, status, data[:80])
    # Deeper than a path is long, it is taken away or refused.
    status, data, _ = asked(b, "DELETE", address(s, "odd") + "&recursive=1")
    assert status in (204, 400, 403), (status, data)


class Racer:
    """Requests of one kind, as many as there are time for; whatever was answered is kept."""

    def __init__(self, b, stop, method, path, body=None):
        self.b, self.stop, self.call, self.answers, self.fault = b, stop, (method, path, body), [], None
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            while not self.stop.is_set():
                self.answers.append(asked(self.b, *self.call, most=1 << 16))
        except Exception as e:  # pylint: disable=broad-except
            self.fault = e

    def done(self):
        self.thread.join()
        if self.fault:
            raise self.fault
        return self.answers


def races(b, s):
    """Whatever a name stood for in between, it was the sandbox's; nothing of the host was read or written."""
    with tempfile.TemporaryDirectory(prefix="carrel-hostile-") as folder:
        os.chmod(folder, 0o777)
        secret = os.path.join(folder, "file")
        with open(secret, "w", encoding="ascii") as f:
            f.write(SECRET)
        os.chmod(secret, 0o666)
        stop = threading.Event()
        racers = [Racer(b, stop, *call) for call in (
            ("GET", address(s, "race/file")), ("PUT", address(s, "race/file"), b"sent" * 20000), ("GET", address(s, "race/way/file")),
            ("PUT", address(s, "race/way/file"), b"sent" * 20000), ("GET", address(s, "race", "/list")), ("DELETE", address(s, "race/file")))]
        run(b.a, s, RACE.format(secret=secret, folder=folder, seconds=RACE_S))
        stop.set()
        seen = [answer for racer in racers for answer in racer.done()]
        assert len(seen) > 20 and not [a for a in seen if SECRET.encode() in a[1]], "the host's file was read"
        assert not [a for a in seen if a[0] == 200 and (b"root:" in a[1] or b"PATH=" in a[1])], "a file of another's was read"
        assert {a[0] for a in seen} <= {0, 200, 201, 204, 400, 403, 404, 409, 500, 507}, {a[0] for a in seen}
        with open(secret, encoding="ascii") as f:
            assert f.read() == SECRET, "the host's file was written"
        assert os.listdir(folder) == ["file"], os.listdir(folder)
    # But for what the code itself has put where a name of theirs was.
    left = run(b.a, s, "import glob, os\nprint([n for n in glob.glob('race/.carrel-*') + glob.glob('race/real/.carrel-*') if not os.path.islink(n)])")
    assert left == "[]\n", left


def shifting(b, s):
    """Sent as long as it was when it was opened, or cut off."""
    stop = threading.Event()
    racers = [Racer(b, stop, "GET", address(s, "shifting")) for _ in range(3)]
    run(b.a, s, SHIFTING.format(seconds=RACE_S / 2))
    stop.set()
    for racer in racers:
        odd = [a for a in racer.done() if a[0] not in (0, 200, 404) and a[2] not in ("guest_lost", "sandbox_stalled", None)]
        assert not odd, odd[:3]


def many_names(b, s):
    """Listed in pages, while other requests are served."""
    names = NAMES_EMULATED if b.engine == "tcg" else NAMES
    began = time.monotonic()
    assert int(run(b.a, s, MANY.format(names=names, links=LINKS), timeout_s=400)) == names
    made, began = time.monotonic() - began, time.monotonic()
    stop = threading.Event()
    racers = [Racer(b, stop, "PUT", address(s, f"beside-{i}"), b"x") for i in range(2)]
    c, r = b.a.open("GET", address(s, "/dev/shm/many", "/list") + "&limit=1000", timeout=LIST_S)
    page = json.loads(r.read())
    c.close()
    stop.set()
    assert r.status == 200 and len(page["entries"]) == 1000 and page["next"], (r.status, str(page)[:200])
    assert page["entries"][0]["name"] == "000" and all(x[0] in (200, 201) for racer in racers for x in racer.done())
    print(f"   {names} names made in {made:.0f} s, a page listed in {time.monotonic() - began:.1f} s")


CASES = [
    Case("odd files", drive=odd_files, after=ODD_AWAY),
    Case("races for files", drive=races, after=RACE_AWAY),
    Case("files that shift", drive=shifting),
    Case("a million names", drive=many_names, own={"limits": {"memory_mb": 1024}}),
]
