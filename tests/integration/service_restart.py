#!/usr/bin/python3
"""conf/run as a service: TERM, and a death of the launcher, leave the sandboxes to the next start; INT ends them."""
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import TOP, Appliance  # noqa: E402


def text(a, sandbox, code):
    return "".join(e["text"] for e in a.execute(sandbox, code) if e["type"] == "stdout")


def keepers(*sandboxes):
    return subprocess.run(["pgrep", "-f", f"^carrel-keeper ({'|'.join(sandboxes)})$"], capture_output=True, text=True,
                          check=False).stdout.split()


def groups(state):
    """The control group of all its sandboxes, by the name that carrel-spawn makes of its runtime directory."""
    st = os.stat(os.path.join(state, "run"))
    name = f"carrel-{st.st_dev:x}-{st.st_ino:x}"
    return lambda: [root for root, dirs, _ in os.walk("/sys/fs/cgroup") if name in dirs]


def main():
    p = subprocess.run([os.path.join(TOP, "conf", "run"), "nonsense"], capture_output=True, text=True, check=False)
    assert p.returncode == 2 and "usage" in p.stderr, p
    with Appliance(arguments=["service"]) as a:
        live, paused = a.create(timeout_s=600)["id"], a.create(timeout_s=600)["id"]
        text(a, live, "x = 1")
        text(a, paused, "y = 2")
        a.json("POST", f"/v1/sandboxes/{paused}/pause")
        left_groups = groups(a.state)
        assert left_groups(), "the group's name is another"
        for number in (signal.SIGTERM, signal.SIGKILL):
            a.process.send_signal(number)
            a.process.wait(60)
            left = keepers(live, paused)
            assert len(left) == 1, left
            a.start()
            assert keepers(live, paused) == left
            assert text(a, live, "x += 1; print(x)") == ("2\n" if number == signal.SIGTERM else "3\n")
        a.json("POST", f"/v1/sandboxes/{paused}/resume", {"timeout_s": 600})
        assert text(a, paused, "print(y)") == "2\n"
    assert not left_groups(), left_groups()


main()
