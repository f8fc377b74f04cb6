#!/usr/bin/python3
"""The form of the sources: what a stranger would trip over."""
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LINES_MAX = 500  # a file is read in one sitting
TEST_LINES_MAX = 600  # a test's cases stand side by side
FORBIDDEN = {
    r"(?<![\w.)}])" + re.escape(TOP) + r"/|/home/(?!user\b)[a-z]+/": "a path of some machine",
    r"\bTODO\b|\bFIXME\b|\bXXX\b": "unfinished work",
}


def tracked():
    out = subprocess.run(["git", "ls-files", "-z"], cwd=TOP, check=True, capture_output=True).stdout
    return [p for p in out.decode().split("\0") if p and os.path.exists(os.path.join(TOP, p))]


def main():
    faults = []
    for path in tracked():
        if path in ("LICENSE", "tests/form.py") or path.startswith("tests/fuzz/corpus/"):
            continue
        with open(os.path.join(TOP, path), "rb") as f:
            text = f.read().decode("utf-8", "replace")
        most = TEST_LINES_MAX if path.startswith("tests/") else LINES_MAX
        if path.endswith((".c", ".h", ".ts")) and text.count("\n") > most:
            faults.append(f"{path}: {text.count(chr(10))} lines, more than {most}")
        for pattern, what in FORBIDDEN.items():
            for m in re.finditer(pattern, text):
                line = text.count("\n", 0, m.start()) + 1
                faults.append(f"{path}:{line}: {what}: {m.group(0)}")
        if path.endswith(".sh") or text.startswith("#!/bin/bash"):
            check = subprocess.run(["bash", "-n", path], cwd=TOP, capture_output=True, text=True)
            if check.returncode:
                faults.append(f"{path}: {check.stderr.strip()}")
    for path in tracked():
        if path.startswith("tests/integration/") and not os.access(os.path.join(TOP, path), os.X_OK):
            faults.append(f"{path}: not executable, so tests/list cannot run it")
    listed = open(os.path.join(TOP, "tests", "list"), encoding="utf-8").read()
    for path in tracked():
        name = os.path.splitext(os.path.basename(path))[0]
        if re.fullmatch(r"tests/(unit|integration)/\w+\.(c|py)", path) and not re.search(rf"\b{name}\b", listed):
            faults.append(f"{path}: not in tests/list, so it never runs")
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
