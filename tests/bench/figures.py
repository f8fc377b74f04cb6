"""What the parts of the benchmark share: rows of the table, and a client's steps."""
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p / 100))]


def row(name, values, unit="ms", scale=1000.0):
    v = [x * scale for x in values]
    return {"figure": name, "n": len(v), "p50": statistics.median(v), "p95": percentile(v, 95), "p99": percentile(v, 99),
            "min": min(v), "unit": unit}


def timed(what, *args, **spec):
    """-> (seconds, what was answered)"""
    began = time.monotonic()
    answer = what(*args, **spec)
    return time.monotonic() - began, answer


def first_output(a, s, code):
    """Seconds from now to the first stdout event."""
    began = time.monotonic()
    for e in a.events("POST", f"/v1/sandboxes/{s['id']}/execute", {"code": code}):
        if e["type"] == "stdout":
            took = time.monotonic() - began
    return took


def create_to_output(a, code, **spec):
    """-> (create to 201, create to first output), seconds."""
    created, s = timed(a.create, **spec)
    first = created + first_output(a, s, code)
    a.kill(s["id"])
    return created, first
