#!/usr/bin/python3
"""Templates of a team: built as a layer, chosen by name, cloned warm; changed, broken, removed in use, kept over a
restart. Everything of a template.conf that needs no large download is in the one that is built here."""
import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import TOP, Appliance, end, refused, run, skip, text  # noqa: E402

CARREL = os.path.join(TOP, "build", "carrel")
CACHE = os.environ.get("CARREL_CACHE") or "/var/cache/carrel"
PACKAGE = "python3-tabulate"  # 50 KB, needs nothing else
SETUP = "#!/bin/sh\nset -eu\nid -u >/opt/tiny/who\nls /sys/class/net >/opt/tiny/net\necho {mark} >/opt/tiny/mark\n{more}"


def command(a, *words, code=0):
    done = subprocess.run([CARREL, "template", *words], env=dict(os.environ, STATE=a.state), capture_output=True, text=True,
                          timeout=900, check=False)
    assert done.returncode == code, done
    return done.stdout, done.stderr


def write(folder, name, content, mode=0o644):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(content)
    os.chmod(path, mode)


def wheel(folder):
    """The smallest that pip takes."""
    os.makedirs(folder)
    info = "tinywheel-1.0.dist-info/"
    with zipfile.ZipFile(os.path.join(folder, "tinywheel-1.0-py3-none-any.whl"), "w") as z:
        z.writestr("tinywheel.py", "answer = 42\n")
        z.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: tinywheel\nVersion: 1.0\n")
        z.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(info + "RECORD", "tinywheel.py,,\n" + "".join(f"{info}{n},,\n" for n in ("METADATA", "WHEEL", "RECORD")))


def recipe(folder, mark, more="", **changed):
    keys = {"DESCRIPTION": "A tiny one", "PACKAGES": PACKAGE, "WHEELS": "wheels", "FILES": "files", "SETUP": "setup", "WARM": "warm",
            "ENV": "TINY=yes", "MEMORY_MB": "512", "OPEN_FILES": "300", **changed}
    write(folder, "template.conf", "# made by a test\n" + "".join(f"{k}={v}\n" for k, v in keys.items() if v))
    write(folder, "setup", SETUP.format(mark=mark, more=more), 0o755)
    if os.path.exists(os.path.join(folder, "wheels")):
        return
    wheel(os.path.join(folder, "wheels"))
    write(folder, "files/opt/tiny/note", "a note\n")
    write(folder, "files/home/user/hello.txt", "hello\n")
    write(folder, "warm/python.py", "import tinywheel\nwarm = tinywheel.answer\n")
    write(folder, "warm/bash.sh", "warm=hot\n")


def entries(kind):
    with contextlib.suppress(FileNotFoundError):
        return {n for n in os.listdir(os.path.join(CACHE, kind)) if not n.startswith(".")}
    return set()


def image_there(image):
    return os.path.exists(os.path.join(CACHE, "images", image, "manifest.json"))


def layer_of(image):
    """Its root file system is the layer's, by another name."""
    inode = os.stat(os.path.join(CACHE, "images", image, "rootfs.ext4")).st_ino
    return next(n for n in entries("layers") if os.stat(os.path.join(CACHE, "layers", n, "rootfs.ext4")).st_ino == inode)


def builds(a, folder):
    before = {kind: entries(kind) for kind in ("packages", "base", "layers")}
    out, err = command(a, "build", folder, "--name", "tiny", "--json")
    made = json.loads(out)
    assert made["name"] == "tiny" and image_there(made["image"]), made
    for said in (" packages, ", " MB to fetch", "installing wheels: done", "SETUP: done", "warming up"):
        assert said in err, err
    assert entries("base") == before["base"] and entries("packages") == before["packages"]
    assert layer_of(made["image"]) not in before["layers"]
    return made["image"]


def runs_in_it(a, image):
    s = a.create(template="tiny", timeout_s=900)
    assert (s["template"], s["image"], s["started"]) == ("tiny", image, "clone"), s
    assert s["limits"] == {"memory_mb": 512, "cpus": 1, "disk_mb": 1024, "open_files": 300}, s
    assert run(a, s["id"], "import resource; print(*resource.getrlimit(resource.RLIMIT_NOFILE))") == "300 300\n"
    said = run(a, s["id"], "import os, tabulate\nprint(warm, os.environ['TINY'], tabulate.__version__[0], open('hello.txt').read(), "
                                "open('/opt/tiny/note').read(), open('/opt/tiny/mark').read(), open('/opt/tiny/who').read(), "
                                "open('/opt/tiny/net').read().split(), os.stat('hello.txt').st_uid)")
    assert said.split() == ["42", "yes", "0", "hello", "a", "note", "one", "0", "['lo']", "1000"], said
    # The count does not know of the warm-up, in either kernel.
    events = a.execute(s["id"], "echo $warm", language="bash")
    assert text(events).split() == ["hot"] and end(events)["status"] == "ok", events
    counts = {k["language"]: k["execution_count"] for k in a.json("GET", f"/v1/sandboxes/{s['id']}/kernels")["kernels"]}
    assert counts == {"python": 2, "bash": 1}, counts
    said = run(a, s["id"], "import subprocess\nprint(subprocess.run(['pip', 'install', 'tabulate', 'tinywheel'], "
                                "capture_output=True, text=True).stdout)")
    assert said.count("already satisfied") == 2, said
    with contextlib.closing(sqlite3.connect(os.path.join(a.state, "carrel.db"))) as db:
        assert db.execute("SELECT image, engine FROM sandboxes WHERE id = ?", (s["id"],)).fetchone() == (image, s["engine"])
    return s["id"]


def is_listed(a, image):
    listed = a.json("GET", "/v1/templates")["templates"]
    assert [t["name"] for t in listed] == ["python", "tiny"], listed
    one = listed[1]
    assert (one["image"], one["description"], one["base"]) == (image, "A tiny one", "python") and one["languages"] == ["python", "bash"], one
    first = a.json("GET", "/v1/templates?limit=1")
    assert first["next"] == "python" and a.json("GET", "/v1/templates?cursor=python")["templates"] == [one]
    assert "tiny" in command(a, "ls")[0]


def failures_leave_nothing(a, folder, image):
    layers = entries("layers")
    recipe(folder, "two", "echo the reason is this\nexit 3\n")
    _, err = command(a, "build", folder, "--name", "tiny", code=1)
    assert "SETUP failed with status 3" in err and "the reason is this" in err, err
    recipe(folder, "two", PACKAGES="no-such-package-anywhere")
    assert "no-such-package-anywhere" in command(a, "build", folder, "--name", "tiny", code=1)[1]
    recipe(folder, "two", COLOUR="red")
    assert "there is no COLOUR" in command(a, "build", folder, "--name", "tiny", code=1)[1]
    recipe(folder, "two", FILES="../etc")
    assert "FILES=../etc" in command(a, "build", folder, "--name", "tiny", code=1)[1]
    recipe(folder, "two", BASE="nothing")
    assert "BASE=nothing" in command(a, "build", folder, "--name", "tiny", code=1)[1]
    assert "python" in command(a, "build", folder, "--name", "python", code=1)[1]
    assert entries("layers") == layers and not [n for n in os.listdir(os.path.join(CACHE, "layers")) if n.startswith(".")]
    assert {n for n in os.listdir(os.path.join(a.state, "templates")) if n != ".lock"} == {"tiny"}
    assert a.json("GET", "/v1/templates/tiny")["image"] == image


def over_the_api(a, image):
    """A recipe that is here already; its log comes line by line."""
    events = [e for e in a.events("POST", "/v1/templates/tiny/build", {}) if e["type"] != "keepalive"]
    assert (end(events)["status"], end(events)["image"]) == ("ok", image), events
    assert f"image: template tiny: image {image}" in "".join(e["text"] for e in events if e["type"] == "log"), events
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1)), events
    [only] = [e for e in a.events("POST", "/v1/templates/nobody/build", {}) if e["type"] != "keepalive"]
    assert only["status"] == "error" and "nobody" in only["message"], only
    refused(404, "not_found", a.json, "POST", "/v1/templates/..%2ftiny/build", {})


def change_builds_the_layer(a, folder, image):
    """Only it; what runs of the old image keeps it."""
    kinds = ("chroot", "packages", "base", "kernel", "guest")
    before = {kind: entries(kind) for kind in kinds}
    recipe(folder, "two")
    began = time.monotonic()
    out, err = command(a, "build", folder, "--name", "tiny", "--no-wait")
    print(f"a changed SETUP: {time.monotonic() - began:.0f} s")
    changed = out.strip()
    assert changed != image and image_there(changed) and image_there(image)
    assert {kind: entries(kind) for kind in kinds} == before and "base root" not in err, err
    assert a.json("GET", "/v1/templates/tiny")["image"] == changed
    # What is of the image alone builds no layer.
    layer = layer_of(changed)
    recipe(folder, "two", ENV="TINY=very")
    again = command(a, "build", folder, "--name", "tiny", "--no-wait")[0].strip()
    assert again not in (image, changed) and layer_of(again) == layer and not image_there(changed)
    return again


def main():
    if os.geteuid() != 0:
        skip("building images needs root")
    folder = tempfile.mkdtemp(prefix="carrel-template-")
    try:
        with Appliance(TEND_S=2) as a:
            refused(400, "unknown_template", a.create, template="tiny")
            recipe(folder, "one", more=f"# {uuid.uuid4()}\n")
            image = builds(a, folder)
            sandbox = runs_in_it(a, image)
            is_listed(a, image)
            over_the_api(a, image)
            failures_leave_nothing(a, folder, image)
            a.json("POST", f"/v1/sandboxes/{sandbox}/pause", {})
            a.stop()
            a.start()
            is_listed(a, image)
            while not a.json("GET", "/v1/templates/tiny")["warm"]:
                time.sleep(0.5)  # its files are being checked, which tells nobody
            other = a.create(template="tiny", timeout_s=900)
            assert other["started"] == "clone", other
            newest = change_builds_the_layer(a, folder, image)
            command(a, "rm", "tiny")
            refused(404, "not_found", a.json, "GET", "/v1/templates/tiny")
            refused(400, "unknown_template", a.create, template="tiny")
            assert not image_there(newest) and image_there(image)
            a.json("POST", f"/v1/sandboxes/{sandbox}/resume", {})
            assert run(a, sandbox, "print(warm)").split() == ["42"]
            copy = a.json("POST", f"/v1/sandboxes/{sandbox}/fork", {"count": 1})["sandboxes"][0]
            assert copy["image"] == image and run(a, copy["id"], "print(warm)").split() == ["42"], copy
            assert image_there(image)
            for s in (sandbox, copy["id"], other["id"]):
                a.json("DELETE", f"/v1/sandboxes/{s}")
            deadline = time.monotonic() + 60
            while image_there(image):
                assert time.monotonic() < deadline, "an image that nothing uses stays"
                time.sleep(0.2)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
