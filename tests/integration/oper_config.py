#!/usr/bin/python3
"""The operator's basics: one configuration file that the environment wins over, checked sentence by sentence; TLS, a renewed
certificate without a restart, no plain HTTP on an address that others reach unless asked for; logs that are put aside."""
import contextlib
import glob
import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import TOP, Appliance, free_port, skip, until  # noqa: E402
from tls import certificate  # noqa: E402

CARREL = os.path.join(TOP, "build", "carrel")
SAMPLE = os.path.join(TOP, "conf", "carrel.conf")


def doctor(path, *words, **env):
    done = subprocess.run([CARREL, "doctor", "--config", path, *words], capture_output=True, text=True, timeout=60,
                          env={k: v for k, v in {**os.environ, **env}.items() if k not in ("BIND", "TLS_CERT", "TLS_KEY") or k in env})
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def sample():
    """Every setting is in it, with what holds without it; the launcher and the check know the same ones."""
    with open(SAMPLE, encoding="utf-8") as f:
        shown = re.findall(r"^#([A-Z_]+)=", f.read(), re.M)
    assert len(shown) == len(set(shown)), shown
    with open(os.path.join(TOP, "conf", "config"), encoding="utf-8") as f:
        launcher = re.search(r"config_names=\((.*?)\)", f.read(), re.S)[1].split()
    with open(os.path.join(TOP, "appliance", "command", "doctor_config.c"), encoding="utf-8") as f:
        checked = re.findall(r'^\t\{ "([A-Z_]+)", ', f.read(), re.M)
    assert set(shown) == set(checked), set(shown) ^ set(checked)
    assert set(shown) - set(launcher) == {"URL", "TOKEN", "CACERT"}, set(shown) ^ set(launcher)
    assert doctor(SAMPLE) == (0, f"{SAMPLE}: 0 settings, nothing wrong.\n")


def sentences(d):
    path = os.path.join(d, "carrel.conf")
    for text, said in (("PORT=0\n", "line 1: PORT must be a whole number from 1 to 65535"), ("\n# x\nNOPE=1\n", "line 3: There is no setting NOPE"),
                       ("ENGINE=fast", "ENGINE must be one of: auto kvm tcg"), ("ALLOW_JAIL=tcg", "ALLOW_JAIL must be one of: yes no"), ("TLS_CERT=/none\nTLS_KEY=/none", "/none, which cannot be read"),
                       ("words", "is not of the form NAME=value"), ("POOL=1\nPOOL=2\n", "line 2: POOL is set twice"),
                       ("TLS_CERT=/etc/hostname\n", "TLS_CERT and TLS_KEY go together"), ("BIND=0.0.0.0\n", "is an address that others reach"),
                       ("STATE=/no/such/place\n", "in a folder that is not there"), ("TOKEN=\"e2b_x\"\n", "quotation marks"),
                       ("HISTORY_DAYS=" + "9" * 300, "longer than")):
        code, out = doctor(write(path, text))
        assert code == 1 and said in out and all(l.endswith(".") for l in out.splitlines()), (text, out)
    code, out = doctor(os.path.join(d, "none"))
    assert code == 1 and "cannot be read" in out
    assert doctor(write(path, " PORT = 8081 \nPLAINTEXT=yes\nBIND=::\n"))[0] == 0
    code, out = doctor(write(path, "PLAINTEXT=no\n"), "--json", BIND="192.0.2.1")
    assert code == 1 and json.loads(out)["faults"], out


def refused(d, said, **settings):
    env = {**os.environ, "PORT": str(free_port()), "STATE": os.path.join(d, "state"), **settings}
    done = subprocess.run([os.path.join(TOP, "conf", "run")], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0 and said in done.stderr, done.stderr
    assert not os.path.exists(os.path.join(d, "state", "carrel.db"))


def refusals(d, cert, key, other_key):
    refused(d, "is an address that others reach", BIND="0.0.0.0")
    refused(d, "TLS_CERT needs TLS_KEY", TLS_CERT=cert)
    refused(d, "TLS_KEY needs TLS_CERT", TLS_KEY=key)
    refused(d, "cannot be read", TLS_CERT=os.path.join(d, "none"), TLS_KEY=key)
    refused(d, "is not the private key of", TLS_CERT=cert, TLS_KEY=other_key)
    refused(d, "is no certificate", TLS_CERT=key, TLS_KEY=key)
    conf = write(os.path.join(d, "bad.conf"), "POOL=many\n")
    refused(d, "POOL must be a whole number", CARREL_CONF=conf)
    refused(d, "cannot be read", CARREL_CONF=os.path.join(d, "none.conf"))


def ask(a, cert, path, token=None):
    context = ssl.create_default_context(cafile=cert)
    c = http.client.HTTPSConnection("127.0.0.1", a.port, timeout=60, context=context)
    with contextlib.closing(c):
        c.request("GET", path, headers={"Authorization": "Bearer " + (token or a.token)})
        r = c.getresponse()
        return r.status, r.read()


def serves(a, cert):
    with contextlib.suppress(ssl.SSLError):
        return ask(a, cert, "/v1/me")[0] == 200
    return False


def plain(a):
    c = http.client.HTTPConnection("127.0.0.1", a.port, timeout=60)
    with contextlib.closing(c):
        c.request("GET", "/v1/me", headers={"Authorization": "Bearer x"})
        r = c.getresponse()
        assert r.status == 400 and json.loads(r.read())["code"] == "bad_request", r.status


def logs(a, cert):
    """A megabyte of long addresses: put aside, two kept, nothing lost between the files."""
    folder = os.path.join(a.state, "nginx")
    for n in range(3):
        had = sum(1 for _ in all_lines(folder))
        context = ssl.create_default_context(cafile=cert)
        c = http.client.HTTPSConnection("127.0.0.1", a.port, timeout=60, context=context)
        with contextlib.closing(c):
            for _ in range(100):
                c.request("GET", "/v1/" + "x" * 12000)
                c.getresponse().read()
        inode = os.stat(os.path.join(folder, "access.log")).st_ino
        until(lambda: os.path.exists(os.path.join(folder, "access.log")) and os.stat(os.path.join(folder, "access.log")).st_ino != inode,
              but="the log was not put aside")
        assert n > 0 or sum(1 for _ in all_lines(folder)) >= had + 100
    assert sorted(os.path.basename(p) for p in glob.glob(os.path.join(folder, "access.log*"))) == ["access.log", "access.log.1", "access.log.2"]
    ask(a, cert, "/v1/after-that")
    until(lambda: any("/v1/after-that" in l for l in open(os.path.join(folder, "access.log"), encoding="utf-8")), but="nginx did not write the new one")


def all_lines(folder):
    for path in glob.glob(os.path.join(folder, "access.log*")):
        with open(path, encoding="utf-8") as f:
            yield from f


def secure(d, cert, key, other):
    conf = write(os.path.join(d, "carrel.conf"), f"# ours\nTLS_CERT = {cert}\nTLS_KEY={key}\nBIND=127.0.0.9\nLOG_MB=1\nLOG_KEEP=2\nSANDBOXES_PER_OWNER=3\n")
    with Appliance(CARREL_CONF=conf, BIND="0.0.0.0", TEND_S=1) as a:
        status, body = ask(a, cert, "/v1/me")
        assert status == 200 and json.loads(body)["quota"]["sandboxes"] == 3, body
        plain(a)
        env = dict(os.environ, CARREL_URL=f"https://127.0.0.1:{a.port}", CARREL_TOKEN=a.token, CARREL_CACERT=cert)
        done = subprocess.run([CARREL, "run", "--keep", "-c", "x = 20\nprint(x + 22)"], env=env, capture_output=True, text=True, timeout=120)
        assert done.stdout == "42\n", done
        assert open(os.path.join(a.state, "url"), encoding="ascii").read() == f"https://0.0.0.0:{a.port}\n"
        found = subprocess.run(["grep", "-rlF", "PRIVATE KEY", a.state], capture_output=True, text=True).stdout
        assert not found, found
        logs(a, cert)
        before = ask(a, cert, "/v1/sandboxes")[1]
        for source, to in zip(other, (cert + ".new", key + ".new")):
            shutil.copy(source, to)
        os.rename(cert + ".new", cert)
        time.sleep(2)  # one without the other is left alone
        assert serves(a, cert) is False
        os.rename(key + ".new", key)
        until(lambda: serves(a, cert), but="the new certificate was not served")
        assert ask(a, cert, "/v1/sandboxes")[1] == before
        a.created |= {s["id"] for s in json.loads(before)["sandboxes"]}


def main():
    if os.geteuid() != 0:
        skip("an appliance needs root")
    sample()
    d = tempfile.mkdtemp(prefix="carrel-config-")
    try:
        sentences(d)
        (cert, key), other = certificate(d, "one"), certificate(d, "two")
        refusals(d, cert, key, other[1])
        secure(d, cert, key, other)
        with Appliance(BIND="0.0.0.0", PLAINTEXT="yes") as a:
            assert a.json("GET", "/healthz")["ready"] is True
    finally:
        shutil.rmtree(d)


if __name__ == "__main__":
    main()
