#!/usr/bin/python3
"""Completion in a real bash, and the manual page through real groff."""
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from fake_v1 import CARREL, TOP, carrel, settings, start  # noqa: E402
from typist import Typist  # noqa: E402

SCRIPT = os.path.join(TOP, "conf", "completion", "carrel.bash")
PAGE = os.path.join(TOP, "conf", "man", "carrel.1")


def complete(env, d, line):
    """-> what bash offers at the end of a command line."""
    words = line.split(" ")
    code = ('. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; '
            'compopt() { :; }; _carrel "$1" "${@: -1}" "${@: -2:1}"; printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "--norc", "-c", code, "bash", SCRIPT, CARREL, *words], env=env, cwd=d,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "", (line, done)
    return done.stdout.split("\n")[:-1]


def test_words(fake, d):
    env = settings(fake)
    for _ in range(2):
        carrel(fake, "run", "--keep", "-c", "exit 0")
    ids = [f"sbx-{n}" for n in range(1, fake.made + 1)]
    open(os.path.join(d, "data.csv"), "w").close()
    verbs = complete(env, d, "")
    assert {"run", "logs", "doctor", "shell", "--json"} <= set(verbs), verbs
    assert complete(env, d, "lo") == ["logs"]
    assert complete(env, d, "--json temp") == ["template"]
    assert sorted(complete(env, d, "kill sb")) == ids and sorted(complete(env, d, "logs -f ")) == ids
    assert complete(env, d, "exec sbx-1 ") == [""], "then it is the program's"
    assert complete(env, d, "exec sbx-1 -- ls --j") == [""]
    assert set(complete(env, d, "exec --")) == {"--cwd", "--env", "--timeout", "--json", "--help"}
    assert complete(env, d, "run --eng") == ["--engine"]
    assert complete(env, d, "run --engine t") == ["tcg"]
    assert complete(env, d, "run --sandbox sbx-1") == ["sbx-1"]
    assert complete(env, d, "run --put da") == ["data.csv"]
    for line, offered in (("cp sbx-1", ["sbx-1:"]), ("cp da", ["data.csv"])):
        assert complete(env, d, line) == offered, (line, complete(env, d, line))
    assert complete(env, d, "key ") == ["create", "ls", "rm"] and complete(env, d, "owner cr") == ["create"]
    assert set(complete(env, d, "doctor -")) == {"--config", "--json", "--help"}
    assert "run" in complete(env, d, "help r")
    # Each verb's options are those that it takes, none is prose.
    for verb in verbs:
        for option in [] if verb.startswith("-") else complete(env, d, f"{verb} --"):
            out = subprocess.run([CARREL, verb, option, "--help"], env=env, capture_output=True, timeout=60)
            assert out.returncode == 0, (verb, option)


def test_without_appliance(fake, d):
    began = time.monotonic()
    env = settings(fake, CARREL_URL="http://127.0.0.1:9")
    assert complete(env, d, "kill ") == [""]
    assert "run" in complete(env, d, "")
    assert time.monotonic() - began < 6, "an appliance that is away does not keep a person waiting"


def test_bash(fake, d):
    """Bash itself, by its own Tab."""
    with Typist(["bash", "--norc", "-i"], settings(fake), d) as t:
        t.type(f"PS1='ready> '; . {SCRIPT}\r")
        t.wait("\x1b\\[\\?2004hready> ")
        t.type(f"{CARREL} templ\t")
        t.wait("template ")
        t.type("l\t")
        t.wait("ls ")
        t.type("--js\t")
        t.wait("--json ")
        t.type("\r")
        t.wait('"image":"0123abcd"')
        t.wait("2004hready> ")
        t.type("\x04")
        assert t.end() == 0


def test_man(fake, d):
    made, _ = carrel(fake, "help", "--man")
    with open(PAGE, "rb") as f:
        assert f.read() == made, "conf/man/carrel.1 is not what `build/carrel help --man` prints: write it again"
    assert made.isascii()
    if not shutil.which("groff"):
        print("no groff: the page is not rendered")
        return
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-P-c", PAGE], capture_output=True, timeout=60)
    assert done.returncode == 0 and done.stderr == b"", done.stderr
    shown = re.sub("\x1b\\[[0-9;]*m|.\x08", "", done.stdout.decode())
    for text in ("carrel - run code in sandboxes", "EXIT STATUS", "124      run, exec: out of time", "ID…", "CARREL_TOKEN",
                 "carrel key create OWNER [--name N]"):
        assert text in shown, (text, shown[:3000])
    if shutil.which("mandoc"):
        lint = subprocess.run(["mandoc", "-Tlint", "-Wwarning", PAGE], capture_output=True, text=True, timeout=60)
        assert "ERROR" not in lint.stdout + lint.stderr, lint


start((test_words, test_without_appliance, test_bash, test_man))
