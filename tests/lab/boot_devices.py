#!/usr/bin/python3
"""Disks, port, entropy and balloon of a booted guest; pause and resume; ways to end."""
from guests import Lab, Lines
from monitor import Refused


def refused(m, *args, **options):
    try:
        m.ask(*args, **options)
    except Refused as e:
        return e.message
    raise AssertionError(f"{args} was not refused")


def main():
    with Lab() as lab:
        m, port = lab.boot_lines("one")
        g = Lines(port)
        assert g.ask("ping").startswith("pong 1 ")
        assert g.ask("clocksource") == "clocksource kvm-clock"
        assert g.ask("disks") == "disks ROOT read-only"
        assert g.ask("write before") == "wrote" and g.ask("read") == "read before"
        assert g.ask("dpaint 3 500") == "wrong 0" and g.ask("dpainted 3 500") == "wrong 0"
        print("disks and port work")

        g.s.sendall(b"spew\n")
        lines = [g.f.readline() for _ in range(40000)]
        assert lines[39999].startswith("spew 039999") and g.f.readline() == "spewed\n"
        g.close()
        g = Lines(port)
        assert g.ask("ping").startswith("pong 2 ")
        print("a megabyte through the port, and a second connection")

        assert m.ask("stat")["state"] == "running"
        assert m.ask("pause")["state"] == "paused" and m.ask("pause")["state"] == "paused"
        g.s.settimeout(0.5)
        g.s.sendall(b"ping\n")
        try:
            raise AssertionError(f"a paused guest said {g.s.recv(64)!r}")
        except TimeoutError:
            pass
        g.s.settimeout(60)
        assert m.ask("resume")["state"] == "running" and m.ask("resume")["state"] == "running"
        assert g.s.recv(64).startswith(b"pong 3 ")
        print("pause and resume work")

        m.ask("balloon", balloon_mb=16)
        while m.ask("stat")["balloon_mb"] < 16:
            assert g.ask("ping").startswith("pong ")
        assert "not in this state" in refused(m, "balloon", balloon_mb=4096)
        m.ask("balloon", balloon_mb=0)
        print("the balloon takes 16 MiB")

        g.s.sendall(b"off\n")
        assert m.wait_ended() == "the guest powered itself off"
        assert m.p.wait(timeout=30) == 0

        m, port = lab.boot_lines("two", vcpus=2)
        g = Lines(port)
        assert g.ask("ping").startswith("pong 1 ")
        g.s.sendall(b"panic\n")
        assert m.wait_ended() == "the guest reset itself"
        assert m.p.wait(timeout=30) == 0


if __name__ == "__main__":
    main()
