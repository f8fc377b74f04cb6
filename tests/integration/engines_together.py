#!/usr/bin/python3
"""One appliance, two engines: its own, and the jail beside it where ALLOW_JAIL says so and a sandbox asks for it by name.
Each answers, pauses, is refused and ended as its engine has it, through the death of carreld; and nothing of either is left.

usage: engines_together.py [PART…]   (all parts without)
"""
import contextlib
import os
import platform
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import Appliance, machine_pid, refused, run, until  # noqa: E402

KERNEL = "import platform; print(platform.release())"


def row(a, s):
    return a.json("GET", f"/v1/sandboxes/{s}")


def stats(a):
    return a.json("GET", "/v1/stats")


def machines(a):
    """With a runtime directory."""
    return {n for n in os.listdir(os.path.join(a.state, "run")) if n.startswith("sbx-")}


def pair(a, **spec):
    """One of each engine: the appliance's own, and the jail."""
    own, jail = a.create(**spec), a.create(limits={"memory_mb": 512}, engine="jail", **spec)
    assert own["engine"] == stats(a)["engine"] != "jail" and jail["engine"] == "jail", (own, jail)
    return own["id"], jail["id"]


def end_both(a, *pairs):
    """Every one of them, and then nothing of any of them."""
    for s in pairs:
        a.kill(s)
    until(lambda: not any(stats(a)["engines"].values()))
    for s in pairs:
        until(lambda s=s: machine_pid(s) is None)
        for where in ("run", "scratch", "sets"):
            until(lambda s=s, where=where: not [n for n in os.listdir(os.path.join(a.state, where)) if s in n])


# --- parts ---

def by_name(a):
    """What names no engine runs in the appliance's own; the jail has the host's kernel, the other one its own."""
    own, jail = pair(a)
    assert run(a, jail, KERNEL) == platform.release() + "\n"
    assert run(a, own, KERNEL) != platform.release() + "\n"
    named = a.create(engine=row(a, own)["engine"])["id"]
    refused(400, "engine_unavailable", a.create, engine="kvm" if row(a, own)["engine"] == "tcg" else "tcg")
    assert stats(a)["engines"] == {row(a, own)["engine"]: 2, "jail": 1}, stats(a)
    metrics = a.request("GET", "/metrics")[1].decode()
    assert 'carrel_sandboxes{state="running",engine="jail"} 1\n' in metrics, metrics
    shown = {s["id"]: s["engine"] for s in a.json("GET", "/v1/sandboxes")["sandboxes"]}
    assert shown[own] == shown[named] == row(a, own)["engine"] and shown[jail] == "jail", shown
    end_both(a, own, jail, named)
    assert row(a, jail)["engine"] == "jail" and row(a, own)["engine"] != "jail"


def restarts(a):
    """carreld is killed: both are found again, each by its own engine, running and paused."""
    own, jail = pair(a)
    own_paused, jail_paused = pair(a)
    for s in (own, jail, own_paused, jail_paused):
        run(a, s, f"x = {s!r}")
    for s in (own_paused, jail_paused):
        assert a.json("POST", f"/v1/sandboxes/{s}/pause", {})["state"] == "paused"
    # Paused the one is files, the other stands still.
    assert machine_pid(jail_paused) and machine_pid(own_paused) is None
    engines = {s: row(a, s)["engine"] for s in (own, jail, own_paused, jail_paused)}
    a.carreld_kill()
    until(a.serves)
    assert engines == {s: row(a, s)["engine"] for s in engines}
    for s in (own_paused, jail_paused):
        assert row(a, s)["state"] == "paused"
        a.json("POST", f"/v1/sandboxes/{s}/resume", {})
    for s in engines:
        assert run(a, s, "print(x)") == s + "\n"
    end_both(a, *engines)


def spawn_killed(a):
    own, jail = pair(a)
    for s in (own, jail):
        run(a, s, "x = 1")
    pid = a.pid_of("carrel-spawn")
    os.kill(pid, signal.SIGKILL)
    until(lambda: a.pid_of("carrel-spawn") != pid)
    for s in (own, jail):
        assert run(a, s, "print(x)") == "1\n"
    end_both(a, own, jail)


def copies(a):
    """What one engine can and the other cannot is asked of the sandbox, not of the appliance."""
    own, jail = pair(a)
    run(a, own, "x = 7")
    for path in ("fork", "snapshots"):
        e = refused(409, "not_supported", a.json, "POST", f"/v1/sandboxes/{jail}/{path}", {})
        assert "The engine jail keeps no copy" in e.error["message"], e.error
    [fork] = a.json("POST", f"/v1/sandboxes/{own}/fork", {"count": 1})["sandboxes"]
    assert fork.get("engine") == row(a, own)["engine"], fork
    assert run(a, fork["id"], "print(x)") == "7\n"
    snapshot = a.json("POST", f"/v1/sandboxes/{own}/snapshots", {})["id"]
    e = refused(409, "not_supported", a.create, snapshot=snapshot, engine="jail")
    assert "starts nothing from a snapshot" in e.error["message"], e.error
    again = a.create(snapshot=snapshot)["id"]
    assert run(a, again, "print(x)") == "7\n"
    a.created = a.created | {fork["id"]}
    end_both(a, own, jail, fork["id"], again)
    a.request("DELETE", f"/v1/snapshots/{snapshot}")


def deadlines(a):
    own, jail = pair(a, timeout_s=5)
    for s in (own, jail):
        assert until(lambda s=s: (r := row(a, s))["state"] == "ended" and r)["end_reason"] == "deadline"


def not_allowed(a):
    """Without the setting the jail is refused, with the setting's name; nothing is left of the request."""
    e = refused(400, "engine_unavailable", a.create, engine="jail")
    assert "ALLOW_JAIL=yes" in e.error["message"] and e.error["field"] == "engine", e.error
    own = stats(a)["engine"]
    assert stats(a)["engines"] == {own: 0}, stats(a)
    assert a.json("GET", "/v1/sandboxes")["sandboxes"] == []


def waiting_jails(a, *mine):
    """Machines of the jail that belong to nobody: they have no monitor."""
    found = set()
    for m in machines(a) - set(mine):
        with contextlib.suppress(OSError):
            files = os.listdir(os.path.join(a.state, "run", m))
            found |= {m} if "agent.sock" in files and "qmp.sock" not in files and "control.sock" not in files else set()
    return found


def from_pool(a):
    """Each that is made past the pool asks it for another, until one has come up in time."""
    for _ in range(20):
        s = a.create(engine="jail")
        if s["started"] == "pool":
            return s
        filled = stats(a)["pool"]["filled"]
        a.kill(s["id"])
        until(lambda filled=filled: stats(a)["pool"]["filled"] > filled, 120)
    raise AssertionError("no sandbox of the jail came from the pool")


def pool(a):
    """The pool is the appliance's own engine's; the jail has a part in it once it is asked for."""
    until(lambda: stats(a)["pool"]["ready"] == 1, 120)
    own = a.create()
    assert (own["engine"], own["started"]) == (stats(a)["engine"], "pool"), own
    first = a.create(engine="jail")
    assert (first["engine"], first["started"]) == ("jail", "boot"), first
    mine = own["id"], first["id"]
    # What waits belongs to nobody: the next carreld ends it, of whichever engine it is.
    until(lambda: waiting_jails(a, *mine), 120)
    waiting = machines(a) - set(mine)
    a.carreld_kill()
    until(a.serves)
    until(lambda: not waiting & machines(a))
    second = from_pool(a)
    assert second["engine"] == "jail", second
    assert run(a, second["id"], KERNEL) == platform.release() + "\n"
    assert run(a, own["id"], KERNEL) != platform.release() + "\n"
    for s in (first, second, own):
        assert run(a, s["id"], "print(1)") == "1\n"
        a.kill(s["id"])


PARTS = [by_name, restarts, spawn_killed, copies, deadlines]
OTHERS = [(not_allowed, {}), (pool, {"ALLOW_JAIL": "yes", "POOL": 1})]


def part(a, call):
    began = time.monotonic()
    call(a)
    print(f"{call.__name__} {time.monotonic() - began:.0f} s", flush=True)


def main():
    wanted = sys.argv[1:] or [p.__name__ for p in PARTS] + [p.__name__ for p, _ in OTHERS]
    if any(p.__name__ in wanted for p in PARTS):
        with Appliance(ALLOW_JAIL="yes") as a:
            for p in PARTS:
                if p.__name__ in wanted:
                    part(a, p)
    for p, settings in OTHERS:
        if p.__name__ in wanted:
            with Appliance(**settings) as a:
                part(a, p)


main()
