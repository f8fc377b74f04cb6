#!/usr/bin/python3
"""JAIL_READ_ONLY: in the engine jail the image cannot be changed, and what people do works as before."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import Appliance, Refused, run  # noqa: E402

MOUNTS = """
import json
print(json.dumps({l.split()[4]: l.split()[5].split(',')[0] for l in open('/proc/self/mountinfo')}))
"""
WORK = """
import tempfile, matplotlib, matplotlib.pyplot as plt, pandas as pd
for folder in ('/home/user', '/tmp', '/var/tmp', '/dev/shm'):
    with tempfile.NamedTemporaryFile(dir=folder) as f: f.write(b'x')
pd.DataFrame({'a': [1, 2]}).to_csv('made.csv')
plt.plot(pd.read_csv('made.csv').a); plt.savefig('made.png')
print(open('made.png', 'rb').read(4)[1:].decode())
"""
AWAY = """
import os
tried = {}
for what in (lambda: os.open('/etc/new', os.O_CREAT | os.O_WRONLY), lambda: os.remove('/etc/passwd'), lambda: os.utime('/', (0, 0))):
    try: what(); print('done')
    except OSError as e: print(e.strerror)
"""


def main():
    with Appliance(ENGINE="jail", JAIL_READ_ONLY="yes") as a:
        s = a.create(timeout_s=3600)["id"]
        mounts = json.loads(run(a, s, MOUNTS))
        assert mounts["/"] == "ro" and all(mounts[m] == "rw" for m in ("/home", "/tmp", "/var/tmp", "/run", "/dev/shm")), mounts
        assert run(a, s, WORK).strip() == "PNG"
        assert "done" not in run(a, s, AWAY)
        a.put(s, "/tmp/put", b"there")
        assert a.get(s, "/tmp/put") == b"there"
        try:
            a.put(s, "/opt/put", b"not there")
            raise AssertionError("a file was put into the image")
        except Refused as e:
            assert e.status == 403, e
        # Packages of the user's own still have their place.
        assert run(a, s, "import site, os; os.makedirs(site.getusersitepackages(), exist_ok=True); print('made')") == "made\n"
        a.kill(s)
        # Without the setting the root is the sandbox's own to change, on its disk.
    with Appliance(ENGINE="jail") as a:
        s = a.create(timeout_s=3600)["id"]
        assert json.loads(run(a, s, MOUNTS))["/"] == "rw"


main()
