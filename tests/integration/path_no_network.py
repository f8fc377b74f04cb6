#!/usr/bin/python3
"""pip, apt, git and requests fail at once, not after retries, with a sentence about the sandbox's missing network."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import Appliance  # noqa: E402

SENTENCE = "no network"
# pip's five retries alone take 7 s and more. `make bench` says how long the refusals take.
RETRIES_MS = 5000

COMMANDS = [
    "pip install requests-toolbelt",
    "apt-get update",
    "git clone https://example.org/x.git",
]
CELLS = [
    "%pip install requests-toolbelt",
    "!pip install requests-toolbelt",
    "import requests\nrequests.get('https://example.org/')",
    "import urllib.request\nurllib.request.urlopen('http://example.org/')",
]


def main():
    with Appliance() as a:
        s = a.create()
        a.execute(s["id"], "import requests, urllib.request")
        for cmd in COMMANDS:
            events = list(a.events("POST", f"/v1/sandboxes/{s['id']}/processes", {"cmd": cmd}))
            said = "".join(e.get("text", "") for e in events)
            last = events[-1]
            assert last["type"] == "end" and last["exit_code"] != 0, (cmd, last)
            assert SENTENCE in said, (cmd, said)
            assert last["duration_ms"] < RETRIES_MS, (cmd, last)
        for code in CELLS:
            events = a.execute(s["id"], code)
            said = "".join(e.get("text", "") + e.get("value", "") for e in events)
            assert SENTENCE in said, (code, events)
            assert events[-1]["duration_ms"] < RETRIES_MS, (code, events)


main()
