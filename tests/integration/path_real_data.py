#!/usr/bin/python3
"""The documented example on real data: upload, groupby, plot as PNG, download;
afterwards session, code and outputs stand in SQLite."""
import base64
import os
import re
import sqlite3
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import Appliance, end, text  # noqa: E402
from data import seattle_weather  # noqa: E402

CODE = """
import pandas as pd
import matplotlib.pyplot as plt
d = pd.read_csv("seattle-weather.csv", parse_dates=["date"])
print(len(d), "days")
monthly = d.groupby(d.date.dt.month)["precipitation"].sum().round(1)
monthly.plot.bar(title="Rain in Seattle, mm")
plt.savefig("rain.png")
monthly.to_csv("monthly.csv")
d.groupby("weather")[["temp_max", "wind"]].mean().round(2)
"""


def main():
    csv = seattle_weather()
    rows = [line.split(",") for line in csv.decode().split()[1:]]
    january = round(sum(float(r[1]) for r in rows if r[0][5:7] == "01"), 1)
    with Appliance() as a:
        s = a.create(metadata={"who": "analyst"})
        assert s["state"] == "running" and s["started"] in ("boot" if s["engine"] == "jail" else "clone", "pool"), s
        put = a.put(s["id"], "seattle-weather.csv", csv)
        assert put["size"] == len(csv), put
        assert a.get(s["id"], "/home/user/seattle-weather.csv") == csv

        events = a.execute(s["id"], CODE)
        assert [e["seq"] for e in events if "seq" in e] == list(range(1, sum("seq" in e for e in events) + 1))
        assert end(events)["status"] == "ok", events
        assert text(events) == f"{len(rows)} days\n", text(events)
        [table] = [e for e in events if e["type"] == "result"]
        assert "<table" in table["data"]["text/html"] and "temp_max" in table["data"]["text/plain"]
        [plot] = [e for e in events if e["type"] == "display"]
        png = base64.b64decode(plot["data"]["image/png"])
        assert png.startswith(b"\x89PNG\r\n\x1a\n") and len(png) > 3000
        assert a.get(s["id"], "rain.png").startswith(b"\x89PNG")
        monthly = a.get(s["id"], "monthly.csv").decode().split()
        assert monthly[1] == f"1,{january}", (monthly[1], january)

        bad = a.execute(s["id"], "print('before')\nlen(d) / 0")
        assert end(bad)["status"] == "error" and text(bad) == "before\n"
        [error] = [e for e in bad if e["type"] == "error"]
        traceback = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error["traceback"]))
        assert error["name"] == "ZeroDivisionError" and "Cell In[2], line 2" in traceback, traceback

        xid = events[0]["execution_id"]
        shown = a.json("GET", f"/v1/executions/{xid}")
        assert shown["status"] == "ok" and shown["code"] == CODE
        assert [o["kind"] for o in shown["outputs"]] == ["stdout", "result", "display"], shown["outputs"]
        n = shown["outputs"][2]["n"]
        _, full, headers = a.request("GET", f"/v1/executions/{xid}/outputs/{n}/full")
        assert full == png and headers["Content-Type"] == "image/png"
        a.kill(s["id"])

        db = sqlite3.connect(f"file:{a.state}/carrel.db?mode=ro", uri=True)
        state, reason = db.execute("select state, end_reason from sandboxes where id=?", (s["id"],)).fetchone()
        assert (state, reason) == ("ended", "asked")
        assert db.execute("select count(*) from executions where sandbox_id=?", (s["id"],)).fetchone() == (2,)
        db.close()


main()
