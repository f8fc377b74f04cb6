#!/usr/bin/python3
"""jupyter console, typed at, with both kernels in sandboxes: prompts, results, input, Ctrl-C, Ctrl-D; and then none is left."""
import os
import shutil
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lib"))
import clients  # noqa: E402
from appliance import Appliance  # noqa: E402
from typist import Typist  # noqa: E402

END_S = 60
# What a terminal is told between letters: colours, modes and places.
ESCAPE = r"(?:\x1b\[[0-9;?]*[A-Za-z]|\r)*"


def coloured(text):
    """A pattern of the text with escapes anywhere between its characters."""
    return ESCAPE.join("\\" + c if not c.isalnum() and c != "\n" else c for c in text)


def prompt(t, n):
    return t.wait(coloured(f"In [{n}]: "))


def enter(t, code):
    t.type(code + "\r")


def python(t):
    prompt(t, 1)
    enter(t, "6 * 7")
    t.wait(coloured("Out[1]: ") + ESCAPE + "42")
    prompt(t, 2)
    enter(t, "print('so ' + 'it is')")
    t.wait("so it is")
    prompt(t, 3)
    # Not complete: the console asks the kernel and goes on in the next line.
    enter(t, "for i in range(2):")
    t.wait(r"\.\.\.")
    enter(t, "print('turn', 10 + i)")
    t.wait(r"\.\.\.")
    t.type("\x1b\r")  # Alt-Enter
    t.wait("turn 10\r\nturn 11")
    prompt(t, 4)
    enter(t, "'got ' + input('who' + '? ')")
    t.wait(r"who\? ")
    enter(t, "Bo")
    t.wait(coloured("Out[4]: ") + ESCAPE + "'got Bo'")
    prompt(t, 5)
    enter(t, "import time; print('as' + 'leep'); time.sleep(600)")
    t.wait("asleep")
    t.type("\x03")
    t.wait("KeyboardInterrupt")
    prompt(t, 6)
    enter(t, "1 / 0")
    t.wait("ZeroDivisionError")
    prompt(t, 7)
    enter(t, "[n for n in In if '6' in n][0]")
    t.wait(coloured("Out[7]: ") + ESCAPE + r"'6 \* 7'")
    prompt(t, 8)


def bash(t):
    prompt(t, 1)
    enter(t, "echo $((6 * 7)) | displayResult")
    t.wait(coloured("Out[1]: ") + ESCAPE + "42")
    prompt(t, 2)
    # Its echo has the question nowhere.
    enter(t, "q=who; read -p \"$q? \" x; echo \"got $x\"")
    t.wait(r"who\? ")
    enter(t, "Bo")
    t.wait("got Bo")
    prompt(t, 3)
    enter(t, "echo as'leep'; sleep 600")
    t.wait("asleep")
    t.type("\x03")
    t.wait("KeyboardInterrupt")
    prompt(t, 4)


def session(a, environment, language, talk):
    folder = tempfile.mkdtemp(prefix="carrel-console-")
    jupyter = os.path.join(os.path.dirname(clients.newest("notebook")), "jupyter")
    argv = [jupyter, "console", "--kernel", "carrel-" + language,
            # Patience for a slow machine.
            "--ZMQTerminalInteractiveShell.kernel_timeout=300",
            "--ZMQTerminalInteractiveShell.kernel_is_complete_timeout=30"]
    try:
        with Typist(argv, environment, folder) as t:
            talk(t)
            assert len(a.json("GET", "/v1/sandboxes")["sandboxes"]) == 1
            t.type("\x04")
            t.wait(r"really want to exit .*\?")
            enter(t, "y")
            t.wait("Shutting down kernel")
            code = t.end()
            assert code == 0, code
        deadline = time.monotonic() + END_S
        while (left := a.json("GET", "/v1/sandboxes")["sandboxes"]) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert left == [], left
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def wanted():
    """Of the command line, or both."""
    return [(n, t) for n, t in (("python", python), ("bash", bash)) if n in (sys.argv[1:] or [n])]


def main():
    home = tempfile.mkdtemp(prefix="carrel-home-")
    clients.newest("notebook")
    try:
        with Appliance() as a:
            environment = clients.remote_environment(home, a)
            for language, talk in wanted():
                began = time.monotonic()
                session(a, environment, language, talk)
                print(f"{language}: {time.monotonic() - began:.1f} s", flush=True)
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
