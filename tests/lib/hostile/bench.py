"""Hostile code as a table: a row says what is run in a sandbox, what must be seen of it, and how it must leave the
sandbox. Whatever it does, the sandbox beside it and the host must not notice.

    with Bench("tcg") as b:
        b.play(Case("memory bomb", "x = []\\nwhile True: ...", status="died", reason="out-of-memory"))
"""
import os
import re
import threading
import time
import typing

from appliance import Appliance, Refused, end, run, text, until

MEMORY_MB = 512
GUEST_MB = 1024  # its kernel, and what is prepared in it, live in there, too
DISK_MB = 256
ANSWER_S = 60  # a host that answers; how fast is for tests/bench/neighbour.py to say
WATCH_S = 0.5  # between two looks at the neighbour
END_S = 90  # until the host has told of a sandbox that ended by itself


class Case(typing.NamedTuple):
    name: str
    code: str = ""
    language: str = "python"
    timeout_s: int = 120
    # What the cell's end says; "timeout|killed" is a choice.
    status: str = "ok"
    reason: str = ""
    signal: str = ""
    # Of the text on stdout: (text, bench) -> None, by assertions.
    seen: typing.Optional[typing.Callable] = None
    # Instead of a cell: (bench, sandbox) -> None.
    drive: typing.Optional[typing.Callable] = None
    # "": the same sandbox answers afterwards; else a pattern of "reason: message" that it ends with.
    ends: str = ""
    # Or the sandbox is found ended, with a reason: what it does holds up the agent itself, where that shares a kernel.
    may_end: bool = False
    # A cell that takes away what was left, in the same sandbox, before it is asked whether it answers.
    after: str = ""
    # Only where the sandbox has a kernel of its own, as its root.
    root: bool = False
    # Too much for a processor in software: what it shows there, another row shows.
    native: bool = False
    # A sandbox of its own, with these settings.
    own: typing.Optional[dict] = None


class Host:
    """What no sandbox may change of the host."""
    SWITCHES = ("/proc/sys/kernel/random/boot_id", "/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/sysrq",
                "/proc/sys/net/ipv4/ip_forward", "/proc/sys/kernel/sched_rt_runtime_us", "/proc/sys/user/max_inotify_instances")

    def __init__(self):
        self.before = self.look()
        self.clock = self.offset()

    @staticmethod
    def offset():
        return time.clock_gettime(time.CLOCK_REALTIME) - time.clock_gettime(time.CLOCK_BOOTTIME)

    def look(self):
        seen = {}
        for path in self.SWITCHES:
            if os.path.exists(path):
                with open(path, encoding="ascii") as f:
                    seen[path] = f.read()
        return seen

    def is_as_before(self):
        assert self.look() == self.before, (self.look(), self.before)
        assert abs(self.offset() - self.clock) < 5, "the host's clock was set"


class Watch:
    """The neighbour's `1+1` and the host's /healthz, again and again."""

    def __init__(self, a, neighbour):
        self.a, self.neighbour = a, neighbour
        self.stop, self.fault, self.longest, self.rounds = threading.Event(), None, 0.0, 0
        self.thread = threading.Thread(target=self.look)
        self.thread.start()

    def look(self):
        while not self.fault and not self.stop.wait(WATCH_S):
            began = time.monotonic()
            try:
                self.a.request("GET", "/healthz", timeout=ANSWER_S)
                events = list(self.a.events("POST", f"/v1/sandboxes/{self.neighbour}/execute", {"code": "1+1"}, timeout=ANSWER_S))
                assert end(events)["status"] == "ok", events
            except Exception as e:  # pylint: disable=broad-except
                self.fault = e  # told by the case that runs
            self.longest = max(self.longest, time.monotonic() - began)
            self.rounds += 1

    def case(self):
        """The longest since the last call; fails when one failed."""
        if self.fault:
            raise AssertionError("the neighbour or the host did not answer") from self.fault
        longest, self.longest = self.longest, 0.0
        return longest

    def end(self):
        self.stop.set()
        self.thread.join()


class Bench:
    def __init__(self, engine, **settings):
        self.engine, self.settings = engine, settings
        self.own_kernel = engine != "jail"
        self.memory_mb = MEMORY_MB if engine == "jail" else GUEST_MB
        self.root_template = None
        self.shared = None

    def __enter__(self):
        self.a = Appliance(ENGINE=self.engine, **self.settings)
        self.a.__enter__()
        try:
            self.neighbour = self.a.create(timeout_s=3600)["id"]
            run(self.a, self.neighbour, "kept = 'the neighbour'")
            self.host = Host()
            self.watch = Watch(self.a, self.neighbour)
        except BaseException as e:
            self.a.__exit__(type(e), e, None)
            raise
        return self

    def __exit__(self, *error):
        self.watch.end()
        self.a.__exit__(*error)

    def sandbox(self, **spec):
        s = self.a.create(**{"timeout_s": 3600, "limits": {"memory_mb": self.memory_mb, "disk_mb": DISK_MB}, **spec})["id"]
        self.lives(s)  # what is asked of it next is not to wait for its kernels
        return s

    def plays(self, case):
        """None, or why it cannot be played on this engine."""
        if case.root and not self.own_kernel:
            return "nobody becomes root there"
        if case.root and not self.root_template:
            return "there is no template with a root here"
        if case.native and self.engine == "tcg":
            return "it is too much for a processor in software"
        return None

    def sandbox_of(self, case):
        if case.root:
            return self.sandbox(template=self.root_template, **(case.own or {}))
        if case.own is not None:
            return self.sandbox(**case.own)
        self.shared = self.shared or self.sandbox()
        return self.shared

    # --- a case ---

    def play(self, case):
        began = time.monotonic()
        s = self.sandbox_of(case)
        if case.drive:
            case.drive(self, s)
        else:
            self.cell(case, s)
        if case.after:
            said = run(self.a, s, case.after)
            assert not said, said
        if case.ends:
            self.ends(case, s)
        elif case.may_end and not self.own_kernel:
            self.lives_or_ends(case, s)
        else:
            self.lives(s)
        if s != self.shared:
            self.a.kill(s)
        self.nobody_noticed()
        print(f"{case.name}: {time.monotonic() - began:.1f} s, the neighbour at most {self.watch.case() * 1000:.0f} ms", flush=True)

    def cell(self, case, s):
        events = self.a.execute(s, case.code, language=case.language, timeout_s=case.timeout_s)
        last = end(events)
        assert last["status"] in case.status.split("|"), (last, events[-4:])
        for key in ("reason", "signal"):
            want = getattr(case, key)
            assert not want or last.get(key) == want, (key, last)
        if case.seen:
            case.seen(text(events), self)

    def lives(self, s):
        for language, code in (("python", "print('lives')"), ("bash", "echo lives")):
            events = self.a.execute(s, code, language=language, timeout_s=ANSWER_S)
            # One that was killed with the rest of them is found dead by the next cell, or dies under it.
            if end(events)["status"] == "died":
                events = self.a.execute(s, code, language=language, timeout_s=ANSWER_S)
            assert text(events) == "lives\n", (language, events)

    def lives_or_ends(self, case, s):
        try:
            self.lives(s)
        except Refused as e:
            assert (e.status, e.error.get("code")) == (409, "wrong_state"), e
            self.ends(case._replace(ends=r"crashed\(agent\): "), s)

    def ends(self, case, s):
        row = until(lambda: (r := self.a.json("GET", f"/v1/sandboxes/{s}"))["state"] == "ended" and r, END_S)
        said = f"{row['end_reason']}: {row.get('message', '')}"
        assert re.search(case.ends, said, re.S), said
        print(f"   ended {said}")
        if s == self.shared:
            self.shared = None

    def ended(self):
        """Which of its sandboxes ended, and why, for who reads of a failure."""
        rows = [self.a.json("GET", "/v1/sandboxes/" + s) for s in self.a.created]
        return "\n".join(f"{r['id']} {r['state']}: {r['end_reason']}: {r.get('message', '')}" for r in rows if r.get("end_reason"))

    def nobody_noticed(self):
        self.host.is_as_before()
        assert run(self.a, self.neighbour, "print(kept)") == "the neighbour\n"
