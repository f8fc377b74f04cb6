#!/usr/bin/python3
"""A monitor killed while it saves or loads: the snapshot it ran from is whole, the one it wrote is whole or none."""
import hashlib
import random
import time

from guests import Lab, Lines
from monitor import Refused

KILLS = 6
# A save takes a few hundred milliseconds in the outer machine.
LATEST_S = 0.6


def digest(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def goes_on(lab, name, scratch, files):
    """-> whether a clone of these files came up; it must be right then"""
    try:
        m, port = lab.clone(name, scratch, **files)
    except (Refused, EOFError) as e:
        m = lab.monitors[-1]
        lab.monitors.remove(m)
        assert m.p.wait(timeout=30) == 1, "a refused snapshot ends the monitor as a failure"
        print(f"{name}: refused: {e}")
        return False
    g = Lines(port)
    assert g.ask("painted 7 2") == "wrong 0"
    g.close()
    lab.end(m)
    return True


def main():
    random.seed(7)
    with Lab() as lab:
        m, port = lab.boot_lines("source")
        g = Lines(port)
        assert g.ask("paint 7 2") == "painted"
        g.close()
        m.ask("pause")
        base = {"memory": lab.path("memory"), "state": lab.path("state"), "rootfs": lab.path("source.rootfs")}
        scratch = lab.path("source.scratch")
        m.snapshot(memory=base["memory"], state=base["state"])
        lab.end(m)
        before = digest(base["memory"]), digest(base["state"])
        whole = 0
        for i in range(KILLS):
            m, port = lab.clone(f"writer{i}", scratch, **base)
            g = Lines(port)
            assert g.ask("paint 7 2") == "painted"
            g.close()
            m.ask("pause")
            kind = "pages" if i % 2 else "memory"
            written = {kind: lab.path(f"{kind}.{i}"), "state": lab.path(f"state.{i}")}
            m.snapshot_send(**written)
            time.sleep(random.uniform(0, LATEST_S))
            lab.kill(m)
            whole += goes_on(lab, f"reader{i}", scratch, base | written)
        print(f"{whole} of {KILLS} were whole")
        assert (digest(base["memory"]), digest(base["state"])) == before
        assert goes_on(lab, "last", scratch, base)


if __name__ == "__main__":
    main()
