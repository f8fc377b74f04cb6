#!/usr/bin/python3
"""Sandboxes outlive carreld and carrel-spawn, and still end on time."""
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from engine import REQUEST, Host, Raw  # noqa: E402


def make_template(host, d):
    files = host.files("template", template=True)
    d.start("template", "template", files)
    d.wait("started template")
    g = host.guest("template")
    assert g.ask("ping").startswith("pong 1 ")
    g.close()
    d.say("pause", "template")
    d.wait("done template 0")
    d.say("save", "template", files["state"], "-")
    d.wait("done template 0")
    d.say("stop", "template", "asked")
    d.wait("ended template asked")
    d.say("free", "template")
    return files


def start(host, d, template, name, deadline_ms=0):
    d.start(name, "clone", host.clone_files(template, name), deadline_ms)
    d.wait(f"started {name}")


def wait_gone(host, name, until):
    while host.keepers(name):
        assert time.monotonic() < until, f"{name} did not end"
        time.sleep(0.02)
    return time.monotonic()


def deadline_without_carreld_and_spawn(host, d, template):
    began = time.monotonic()
    start(host, d, template, "late", 3000)
    d.kill()
    host.kill_spawn()
    over = wait_gone(host, "late", began + 10) - began
    print(f"deadline of 3.0 s kept at {over:.2f} s with every other part down")
    assert 2.9 < over < 4
    host.start_spawn()
    d = host.driver()
    d.say("adopt", "late")
    d.wait("ended late deadline")
    d.say("free", "late")
    return d


def spawn_killed(host, d, template):
    start(host, d, template, "kept")
    g = host.guest("kept")
    first = g.ask("ping")
    host.kill_spawn()
    assert g.ask("ping") != first, "the machine runs on without carrel-spawn"
    host.start_spawn()
    d.say("pause", "kept")
    d.wait("done kept 0")
    d.say("resume", "kept")
    d.wait("done kept 0")
    # The engine's connection is back once a new start works.
    while True:
        d.start("fresh", "clone", host.clone_files(template, "fresh"))
        line = d.lines.get(timeout=30)
        if line.startswith("started fresh"):
            break
        assert line.startswith("error fresh"), line
        time.sleep(0.1)
    d.say("stop", "fresh", "asked")
    d.wait("ended fresh asked")
    d.say("free", "fresh")
    d.say("deadline", "kept", 500)
    d.wait("ended kept deadline")
    g.close()
    d.say("free", "kept")


def ended_while_spawn_was_away(host, d, template):
    start(host, d, template, "away")
    host.kill_spawn()
    os.kill(host.qemu("away"), signal.SIGABRT)
    wait_gone(host, "away", time.monotonic() + 10)
    host.start_spawn()
    d.wait("ended away crashed(SIGABRT)")
    d.say("free", "away")
    start_when_back = time.monotonic()
    while os.path.exists(os.path.join(host.run_dir, "away")):
        assert time.monotonic() < start_when_back + 5, "a freed sandbox leaves its directory"
        time.sleep(0.02)


def carreld_restarts(host, d, template):
    start(host, d, template, "adopted")
    g = host.guest("adopted")
    first = g.ask("ping")
    g.close()
    d.kill()
    d = host.driver()
    d.say("adopt", "adopted")
    d.wait("started adopted")
    g = host.guest("adopted")
    assert g.ask("ping") > first
    d.say("pause", "adopted")
    d.wait("done adopted 0")
    d.kill()
    d = host.driver()
    d.say("adopt", "adopted")
    d.wait("started adopted")
    d.say("resume", "adopted")
    d.wait("done adopted 0")
    assert g.ask("ping").startswith("pong ")
    g.close()
    d.say("adopt", "nobody")
    d.wait("ended nobody crashed | Nothing of this sandbox runs any more")
    d.say("stop", "adopted", "asked")
    d.wait("ended adopted asked")
    d.say("free", "adopted")
    d.say("free", "nobody")
    return d


def stopped_keeper_is_killed(host, d, template):
    start(host, d, template, "stuck")
    os.kill(host.keeper("stuck"), signal.SIGSTOP)
    d.say("stop", "stuck", "asked")
    d.wait("ended stuck asked", timeout=10)
    d.say("free", "stuck")


def strangers_are_refused(host):
    code = "import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(sys.argv[1])"
    p = subprocess.run([sys.executable, "-c", code, host.socket], user=65534, group=65534, extra_groups=[],
                       capture_output=True, text=True, check=False)
    assert p.returncode != 0 and "PermissionError" in p.stderr, p.stderr


def broken_packets(host):
    raw = Raw(host)
    raw.send(b"x" * 7)
    assert raw.reply()["error"] == -71
    raw.send(b"\xff" * REQUEST.size)
    assert raw.reply()["error"] == -71
    raw.send(b"\x01" * 4096)
    assert raw.reply()["error"] == -71
    for name in ("../x", "", "-x", "A", "x" * 40):
        assert raw.ask("stat", name)["error"] == -22, name
    r = raw.ask("stop", "nobody", "asked")
    assert r["error"] == -2 and r["message"], r
    many = [os.open("/dev/null", os.O_RDONLY) for _ in range(12)]
    raw.send(REQUEST.pack(1, 5, 9, b"nobody", 0, 0, 0, 0, 0, 0, 0, 0, 0, b""), many)
    assert raw.reply()["error"] == -71
    for fd in many:
        os.close(fd)
    spawn_fds = f"/proc/{host.spawn.pid}/fd"
    assert not [f for f in os.listdir(spawn_fds) if os.readlink(f"{spawn_fds}/{f}") == "/dev/null" and int(f) > 2]
    raw.close()


def left_running(template_host):
    """Without --stop-on-exit a SIGTERM leaves machines to the next carrel-spawn."""
    host, d, template = template_host
    start(host, d, template, "over")
    host.spawn.terminate()
    assert host.spawn.wait(timeout=10) == 0
    g = host.guest("over")
    assert g.ask("ping").startswith("pong ")
    g.close()
    host.stop_on_exit = True
    host.start_spawn()
    # __exit__ ends it with reason host-restart.


def main():
    with Host(stop_on_exit=False) as host:
        d = host.driver()
        template = make_template(host, d)
        d = deadline_without_carreld_and_spawn(host, d, template)
        spawn_killed(host, d, template)
        ended_while_spawn_was_away(host, d, template)
        d = carreld_restarts(host, d, template)
        stopped_keeper_is_killed(host, d, template)
        strangers_are_refused(host)
        broken_packets(host)
        left_running((host, d, template))


if __name__ == "__main__":
    main()
