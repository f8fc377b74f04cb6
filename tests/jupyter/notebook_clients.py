#!/usr/bin/python3
r"""papermill, nbclient and nbconvert run a notebook with real data and plots to its end, and find what ipykernel gives.

Each program runs the same notebook twice: with ipykernel on this machine, which
has pandas, numpy and matplotlib in the image's versions, and with carrel-python
in a sandbox. Kinds of outputs, their order, their text and tables and the files
made are the same. Of pictures, the size in pixels: what draws the letters
(FreeType) is Debian's there and matplotlib's own here, so their bytes differ.
The lines of a `!command` end in \n with ours and in \r\n, as on a terminal, with ipykernel.
How the text of a stream is cut into messages is a matter of time, so neighbours
are taken together.
"""
import base64
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lib"))
import clients  # noqa: E402
import data  # noqa: E402
from appliance import Appliance  # noqa: E402

RUN_S = 300
PNG = b"\x89PNG\r\n\x1a\n"
CELLS = (
    """import sys
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import HTML, JSON, Latex, Markdown, clear_output, display
%config InlineBackend.print_figure_kwargs = {'bbox_inches': None}
w = pd.read_csv('weather.csv', parse_dates=['date'])
print(len(w), 'days of', *w.columns)
w.describe()""",
    "year = 2012",
    "month = w[w.date.dt.year == year].groupby(w.date.dt.month)[['precipitation', 'temp_max', 'temp_min', 'wind']].mean()\n"
    "month.to_csv('month.csv')\nmonth.round(2)",
    """fig, ax = plt.subplots(figsize=(7, 3))
month[['temp_max', 'temp_min']].plot(ax=ax, marker='o')
ax.set_title(f'Seattle, {year}')
plt.show()
print('after the figure')""",
    "counts = w.weather.value_counts()\ncounts.plot.bar(figsize=(4, 4), color='tab:blue');",
    "counts",
    """shown = display('nothing yet', display_id='progress')
for i in range(1, 4):
    shown.update(f'{i} of 3')
print('done')""",
    "for i in range(3):\n    clear_output(wait=True)\n    print('step', i)",
    "print('to the user', flush=True)\nprint('to the log', file=sys.stderr)",
    "display(Markdown('*so*'), HTML('<b>so</b>'), Latex('$x^2$'), JSON({'a': [1, 2]}))\nnp.arange(6).reshape(2, 3)",
    "!wc -l month.csv",
    "def mean(v):\n    '''The mean.'''\n    return sum(v) / len(v)\n\n[round(mean(w.wind), 3), None, 'text']",
    "await __import__('asyncio').sleep(0, 'awaited')",
    "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    print('caught', repr(e))",
    "_ + '!', len(Out), len(In)",
)
# Program: its command line, but for the kernel's name.
PROGRAMS = {
    "papermill": ["papermill", "in.ipynb", "out.ipynb", "-p", "year", "2014", "--no-progress-bar", "-k"],
    "nbclient": ["jupyter", "execute", "in.ipynb", "--output=out", "--startup_timeout=120", "--kernel_name"],
    "nbconvert": ["jupyter", "nbconvert", "--to", "notebook", "--execute", "in.ipynb", "--output", "out.ipynb",
                  "--ExecutePreprocessor.kernel_name"],
}


def notebook():
    cells = [{"cell_type": "code", "id": f"cell-{i}", "metadata": {"tags": ["parameters"]} if i == 1 else {},
              "source": code, "execution_count": None, "outputs": []} for i, code in enumerate(CELLS)]
    cells.insert(0, {"cell_type": "markdown", "id": "text", "metadata": {}, "source": "# Weather"})
    return {"cells": cells, "metadata": {"kernelspec": {"name": "python3", "display_name": "P", "language": "python"},
                                         "language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}


def picture(text):
    png = base64.b64decode(text)
    assert png.startswith(PNG) and len(png) > 3000, png[:20]
    return struct.unpack(">II", png[16:24])


def normal(output):
    """An output without what need not be equal."""
    output = dict(output)
    for key, value in output.get("data", {}).items():
        if key == "image/png":
            output["data"] = {**output["data"], key: picture(value)}
        elif isinstance(value, list):
            output["data"] = {**output["data"], key: "".join(value)}
    if "text" in output:
        # ipykernel runs `!command` on a terminal, which ends lines so; ours has pipes, as a shell's.
        output["text"] = "".join(output["text"]).replace("\r\n", "\n")
    return output


def outputs(path):
    """[(source, number, [output])] of the cells with code"""
    with open(path, encoding="utf-8") as f:
        cells = [c for c in json.load(f)["cells"] if c["cell_type"] == "code"]
    found = []
    for c in cells:
        joined = []
        for o in map(normal, c["outputs"]):
            if joined and o["output_type"] == "stream" and o.get("name") == joined[-1].get("name"):
                joined[-1]["text"] += o["text"]
            else:
                joined.append(o)
        found.append(("".join(c["source"]), c["execution_count"], joined))
    return found


def execute(python, program, kernel, env, csv):
    """-> (outputs, the file that a cell made)"""
    folder = tempfile.mkdtemp(prefix="carrel-notebook-")
    try:
        with open(os.path.join(folder, "in.ipynb"), "w", encoding="utf-8") as f:
            json.dump(notebook(), f)
        with open(os.path.join(folder, "weather.csv"), "wb") as f:
            f.write(csv)
        command, *words = PROGRAMS[program]
        words += [kernel] if not words[-1].startswith("--") else []
        if words[-1].startswith("--"):
            words[-1] += "=" + kernel
        p = subprocess.run([os.path.join(os.path.dirname(python), command), *words], env=env, cwd=folder,
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_S, check=False)
        assert p.returncode == 0, f"{program} with {kernel}: {p.stdout[-2000:]}{p.stderr[-4000:]}"
        with open(os.path.join(folder, "month.csv"), encoding="ascii") as f:
            return outputs(os.path.join(folder, "out.ipynb")), f.read()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compare(program, ours, theirs):
    assert len(ours[0]) == len(theirs[0]) >= len(CELLS), program
    for one, other in zip(ours[0], theirs[0]):
        assert one == other, f"{program}: {json.dumps(one, indent=1)}\nis not what ipykernel gives:\n{json.dumps(other, indent=1)}"
    assert ours[1] == theirs[1], f"{program}: {ours[1]}\nis not what ipykernel makes:\n{theirs[1]}"
    kinds = [o["output_type"] for cell in ours[0] for o in cell[2]]
    pictures = [o["data"]["image/png"] for cell in ours[0] for o in cell[2] if "image/png" in o.get("data", {})]
    assert len(pictures) == 2 and "error" not in kinds, (pictures, kinds)
    return f"{len(kinds)} outputs, pictures {pictures}"


def main():
    python = clients.newest("notebook")
    csv = data.seattle_weather()
    folder = tempfile.mkdtemp(prefix="carrel-home-")
    try:
        with Appliance() as a:
            env = clients.remote_environment(folder, a)
            for program in sys.argv[1:] or PROGRAMS:
                began = time.monotonic()
                theirs = execute(python, program, "python3", env, csv)
                halfway = time.monotonic()
                said = compare(program, execute(python, program, "carrel-python", env, csv), theirs)
                left = a.json("GET", "/v1/sandboxes")["sandboxes"]
                assert left == [], left
                print(f"{program}: {said}; ipykernel {halfway - began:.1f} s, ours {time.monotonic() - halfway:.1f} s",
                      flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
