"""What is attacked: process 1 and the parents of kernels, the kernel's calls, /proc and /sys, mounts and namespaces."""
import json

from appliance import end, run, text
from hostile.bench import Case

# Each by its number, so that no library's opinion comes between; what must not work -> what it answered.
CALLS = """
import ctypes, errno, json, os
c = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    pid = os.getpid()
    ctypes.set_errno(0)
    r = c.syscall(*args)
    if os.getpid() != pid: os._exit(0)
    return 'ok' if r >= 0 else errno.errorcode[ctypes.get_errno()]
z = ctypes.create_string_buffer(256)
# One piece of memory here; of none, nobody would be asked for rights.
piece = (ctypes.c_uint64 * 2)(ctypes.addressof(z), 8)
calls = dict(
    mount=(165, b'none', b'/mnt', b'tmpfs', 0, None), umount=(166, b'/proc', 2), pivot_root=(155, b'/', b'/mnt'),
    chroot=(161, b'/'), unshare_mount=(272, 0x20000), unshare_net=(272, 0x40000000), setns=(308, 0, 0),
    fsopen=(430, b'tmpfs', 0), open_tree=(428, -100, b'/', 1), mount_setattr=(442, -100, b'/', 0, z, 32),
    move_mount=(429, -100, b'/tmp', -100, b'/mnt', 0), fanotify_init=(300, 0, 0),
    ptrace_one=(101, 16, 1, 0, 0), seize_one=(101, 0x4206, 1, 0, 0),
    process_vm_readv=(310, 1, piece, 1, piece, 1, 0), process_vm_writev=(311, 1, piece, 1, piece, 1, 0),
    pidfd_getfd=(438, 0, 0, 0), kcmp=(312, 1, os.getpid(), 0, 0, 0), move_pages=(279, 1, 0, None, None, None, 0),
    bpf=(321, 0, z, 64), bpf_load=(321, 5, z, 64), userfaultfd=(323, 0), perf_event_open=(298, z, 0, -1, -1, 0),
    reboot=(169, 0xfee1dead, 672274793, 0x1234567, None), poweroff=(169, 0xfee1dead, 672274793, 0x4321fedc, None),
    settimeofday=(164, z, None), clock_settime=(227, 0, z), init_module=(175, z, 0, b''), finit_module=(313, 0, b'', 0),
    delete_module=(176, b'x', 0), kexec_load=(246, 0, 0, None, 0), kexec_file_load=(320, 0, 0, 0, b'', 0),
    swapon=(167, b'/dev/null', 0), swapoff=(168, b'/x'), sethostname=(170, b'x', 1), setdomainname=(171, b'x', 1), iopl=(172, 3),
    ioperm=(173, 0x80, 1, 1), syslog=(103, 3, z, 10), open_by_handle_at=(304, -100, z, 0), acct=(163, b'/tmp/x'),
    quotactl=(179, 0, None, 0, None), vhangup=(153,), lookup_dcookie=(212, 0, z, 64),
    packet_socket=(41, 17, 3, 768), raw_socket=(41, 2, 3, 1), raw_icmp6=(41, 10, 3, 58), netlink_audit=(41, 16, 3, 9),
    mknod_disk=(133, b'/tmp/disk', 0o60600, 0xfe00), mknod_mem=(133, b'/tmp/mem', 0o20600, 0x101),
    fifo_priority=(144, 0, 1, ctypes.byref(ctypes.c_int(99))), prlimit_one=(302, 1, 7, z, None), priority_one=(141, 0, 1, 19), kill_one=(62, 1, 9),
    setuid_root=(105, 0), setgid_root=(106, 0), setgroups=(116, 0, None),
    # These are a guest's own kernel's to give to anybody; on the host's they are nobody's.
    unshare_user=(272, 0x10000000), clone_new_user=(56, 0x10000000 | 17, None, None, None, None),
    io_uring_setup=(425, 4, ctypes.create_string_buffer(120)), keyctl=(250, 0, -3, 1), add_key=(248, b'user', b'a', b'b', 1, -3),
    request_key=(249, b'user', b'a', None, -3), alg_socket=(41, 38, 5, 0), vsock=(41, 40, 1, 0), netlink_netfilter=(41, 16, 3, 12),
    name_to_handle_at=(303, -100, b'/', z, z, 0), adjtimex=(159, z), userfaultfd_user=(323, 1), mbind=(237, 0, 0, 0, None, 0, 0),
    set_mempolicy=(238, 0, None, 0), clone3=(435, ctypes.create_string_buffer(64), 64), landlock=(444, None, 0, 1),
)
print(json.dumps({name: call(name, *args) for name, args in calls.items()}))
"""
# unshare_user makes this process one with capabilities over its own namespace: it is asked for in a child, last.
GIVEN = {"unshare_user", "clone_new_user", "io_uring_setup", "keyctl", "add_key", "request_key", "alg_socket", "vsock", "netlink_netfilter", "netlink_audit",
         "name_to_handle_at", "adjtimex", "userfaultfd_user", "mbind", "set_mempolicy", "clone3", "landlock"}
CALLS_S = 110
NO = {"EPERM", "ENOSYS", "EACCES"}
# Refused before anybody asked for rights: an argument was wrong, or there is no such thing.
NO_EITHER = {"EINVAL", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "EFAULT", "ENOTBLK", "EBADF", "ENOENT", "ENODEV", "ESRCH", "ENOEXEC"}

# One that asks for it in a child of its own, with a second to answer.
APART = """
import os, subprocess, sys
print(subprocess.run([sys.executable, '-c', {code!r}], capture_output=True, text=True, timeout=100).stdout, end='')
"""

# Everything that /proc/sys, /sys and /proc hold is read a little, and written where it can be opened for that.
PROBES = """
import json, os, stat
wrote, failed, reads, seen = [], 0, 0, set()
def probe(path):
    global reads, failed
    try:
        st = os.lstat(path)
        if not stat.S_ISREG(st.st_mode): return
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            try: os.read(fd, 512); reads += 1
            finally: os.close(fd)
        except OSError: failed += 1
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(fd, b'0'); wrote.append(path)
        finally: os.close(fd)
    except OSError: pass
def walk(top, deep):
    for root, dirs, files in os.walk(top):
        dirs[:] = [d for d in dirs if not (d.isdigit() or d in ('self', 'thread-self'))]
        if root.count('/') > deep: dirs[:] = []
        for f in files: probe(os.path.join(root, f))
walk('/proc', 7)
walk('/sys', 9)
probe('/dev/kmsg'); probe('/dev/mem'); probe('/dev/port')
print(json.dumps({'wrote': wrote, 'reads': reads}))
"""

# With the rights that a namespace of one's own gives, where one can be had.
NAMESPACES = r"""
unshare -Urmnpf --mount-proc sh -c '
mount -t tmpfs none /usr/lib/carrel; mount -t tmpfs none /home; mount --bind /dev/null /proc/uptime; umount -l /sys
echo 0 >/proc/sys/kernel/randomize_va_space; echo /tmp/x >/proc/sys/kernel/core_pattern; echo 1 >/proc/sys/vm/drop_caches
mkdir /sys/fs/cgroup/mine; mount -t cgroup2 none /mnt && echo $$ >/mnt/cgroup.procs; echo max >/mnt/work/pids.max
mknod /tmp/sda b 254 0; mount -t overlay none -o lowerdir=/etc,upperdir=/tmp,workdir=/tmp /mnt; ip link add d type dummy; hostname mine
chroot / true; pivot_root . .; kill -9 1; exit 0' >/dev/null 2>&1
for i in $(seq 40); do unshare -Urmnpiuf true; done >/dev/null 2>&1
nsenter -t 1 -a id; nsenter -t $PPID -m id; su -c id </dev/null
# Last: all that it reaches is this user's, this shell too.
unshare -Ur sh -c 'kill -9 -1' >/dev/null 2>&1; true
"""

PID_ONE = """
import os, resource, signal
def tried(name, what, *args):
    try: what(*args); worked.append(name)
    except OSError: pass
others = [p for p in map(int, filter(str.isdigit, os.listdir('/proc'))) if open(f'/proc/{p}/stat').read().rsplit(')', 1)[1].split()[1:2] != ['0']]
def not_mine(p):
    return 'Uid:\\t1000\\t1000\\t1000' not in open(f'/proc/{p}/status').read()
foreign = [p for p in others if p != os.getpid() and not_mine(p)]
worked = []
for p in [1] + foreign:
    for n in (0, 1, 2, 3, 6, 9, 10, 11, 15, 17, 18, 19, 34): tried(f'signal {n}', os.kill, p, n)
    tried('priority', os.setpriority, os.PRIO_PROCESS, p, 19)
    tried('limit', resource.prlimit, p, resource.RLIMIT_NOFILE, (0, 0))
    for f in ('mem', 'oom_score_adj', 'environ', 'root/etc/passwd', 'cwd/x', 'fd/0', 'clear_refs', 'uid_map', 'coredump_filter'):
        tried(f, open, f'/proc/{p}/{f}', 'r+b')
for f in ('/dev/vport0p1', '/dev/vport1p1', '/dev/hvc0', '/dev/ttyS0', '/dev/vda', '/dev/vdb', '/dev/mem', '/dev/kmsg', '/dev/loop-control', '/dev/fuse'):
    if os.path.exists(f) and f != '/dev/fuse': tried(f, open, f, 'r+b')
print(len(foreign), sorted(set(worked)))
"""

STOP_ALL = "import os, signal\nos.kill(-1, signal.SIGSTOP)\nos.kill(os.getpid(), signal.SIGSTOP)"
SOCKETS_AWAY = "import glob, os, shutil\nfor n in glob.glob('/run/carrel/kernels/*'): shutil.rmtree(n, ignore_errors=True)"
FAKE_KERNEL = """
import glob, os, socket, struct
# Garbage and other people's handshakes into every socket that a kernel listens on.
for path in glob.glob('/run/carrel/kernels/*/*'):
    for hello in (b'\\xff' * 70000, b'\\xff\\0\\0\\0\\0\\0\\0\\0\\x01\\x7f\\3\\0NULL' + b'\\0' * 48 + b'\\4\\x29\\5READY' + b'\\0' * 35 + b'\\2' + b'\\xff' * 8, os.urandom(5000)):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(0.2)
            try: s.connect(path); s.sendall(hello); s.recv(100)
            except OSError: pass
"""
PARENTS = """
import os, signal
for p in map(int, filter(str.isdigit, os.listdir('/proc'))):
    for n in (signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL):
        if p != os.getpid():
            try: os.kill(p, n)
            except OSError: pass
"""


def guest_refuses(name, answer):
    return name in GIVEN or answer in NO | NO_EITHER


def jail_refuses(name, answer):
    return answer in NO or name in ("clone3", "landlock") or answer == "EINVAL" and name.startswith(("unshare", "setns"))


def calls(b, s):
    last = "unshare_user"
    code = CALLS.replace("JAIL", str(not b.own_kernel))
    answers = json.loads(run(b.a, s, APART.format(code=code), timeout_s=CALLS_S))
    assert last in answers and len(answers) > 60, answers
    wrong = {name: answer for name, answer in answers.items() if not (guest_refuses if b.own_kernel else jail_refuses)(name, answer)}
    assert not wrong, wrong


def probes(said, _):
    seen = json.loads(said)
    assert seen["reads"] > 100 and not seen["wrote"], seen


def pid_one(said, _):
    count, worked = said.split(" ", 1)
    assert int(count) >= 1 and worked == "[]\n", said


def stopped(b, s):
    """Kernels that stand still are taken for what they are once their cells' time is over."""
    for language, code in (("python", STOP_ALL), ("bash", "echo on")):
        last = end(b.a.execute(s, code, language=language, timeout_s=3))
        assert last["status"] in ("timeout", "killed", "died"), last


def sockets_gone(b, s):
    """A kernel whose sockets are taken away is still what runs, or is started anew when asked for."""
    run(b.a, s, SOCKETS_AWAY)
    assert text(b.a.execute(s, "print('still')")) == "still\n"
    for k in b.a.json("GET", f"/v1/sandboxes/{s}/kernels")["kernels"]:
        b.a.json("POST", f"/v1/kernels/{k['id']}/restart", {})


def su_is_refused(b, s):
    events = list(b.a.events("POST", f"/v1/sandboxes/{s}/processes", {"cmd": "su -c id </dev/null; sudo -n id; pkexec id"}))
    assert "uid=0" not in text(events) and end(events), events


CASES = [
    Case("calls", drive=calls),
    Case("probes of /proc and /sys", PROBES, timeout_s=600, seen=probes),
    Case("mounts and namespaces", NAMESPACES, language="bash", status="ok|died"),
    Case("process 1 and what is root's", PID_ONE, seen=pid_one),
    Case("su", drive=su_is_refused),
    Case("kill -9 -1", "import os\nos.kill(-1, 9)\nos.kill(os.getpid(), 9)", status="died", signal="SIGKILL"),
    Case("kill -9 -1 from bash", "kill -9 -1; kill -9 $$", language="bash", status="died", signal="SIGKILL"),
    Case("kill of each by name", PARENTS),
    Case("stop of all", drive=stopped),
    Case("sockets of kernels taken away", drive=sockets_gone),
    Case("garbage to sockets of kernels", FAKE_KERNEL, status="ok|died"),
]
