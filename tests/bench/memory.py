"""What a sandbox costs while nobody uses it, and what its pause and resume cost."""
import re
import time

from appliance import Appliance, machine_pid
from figures import row, timed

IDLE = 6  # sandboxes side by side
DIRTY_MIB = (0, 128, 512)
IDLE_CELLS = (
    ("print(1)", "print(1)"),
    ("import pandas", "import pandas"),
    ("groupby and a plot", "import pandas as pd, matplotlib.pyplot as plt\n"
                           "pd.DataFrame({'a': [1, 2, 2]}).groupby('a').size().plot()"),
)


def memory_mb(sandbox, *fields):
    with open(f"/proc/{machine_pid(sandbox)}/smaps_rollup", encoding="ascii") as f:
        rollup = dict(re.findall(r"^(\w+):\s+(\d+) kB", f.read(), re.M))
    return sum(int(rollup[field]) for field in fields) / 1024


def idle(a, rows, notes):
    ids = [a.create(timeout_s=600)["id"] for _ in range(IDLE)]
    for name, code in IDLE_CELLS:
        for i in ids:
            a.execute(i, code)
        rows.append(row(f"private memory after {name}, {IDLE} side by side",
                        [memory_mb(i, "Private_Dirty", "Private_Clean") for i in ids], "MB", 1))
        pss = [memory_mb(i, "Pss") for i in ids]
        notes.append(f"# idle sandboxes per GiB after {name}: {1024 * IDLE / sum(pss):.1f} (each its share of what they share)")
    for i in ids:
        a.kill(i)


def pauses(a, runs, rows):
    for mib in DIRTY_MIB:
        s = a.create(timeout_s=600)["id"]
        a.execute(s, f"import random\nkept = [random.randbytes(1 << 20) for _ in range({mib})]\nprint(len(kept))")
        paused, resumed = [], []
        for _ in range(runs):
            a.execute(s, f"for i in range({mib}): kept[i] = random.randbytes(1 << 20)")
            paused.append(timed(a.json, "POST", f"/v1/sandboxes/{s}/pause")[0])
            resumed.append(timed(a.json, "POST", f"/v1/sandboxes/{s}/resume")[0])
        a.kill(s)
        rows.append(row(f"pause with {mib} MiB of new data", paused))
        rows.append(row(f"resume with {mib} MiB of new data", resumed))


def measure(runs, rows, notes):
    with Appliance() as a:
        idle(a, rows, notes)
        pauses(a, runs, rows)
