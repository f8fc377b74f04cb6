"""Debian's ipykernel on the host, driven by jupyter_client: JSON of seconds.

usage: ipykernel_peer.py STARTS WARM_ROUNDS
"""
import json
import sys
import time

try:
    from jupyter_client.manager import KernelManager
    import ipykernel  # noqa: F401
except ImportError as e:
    sys.exit(f"{e}: apt-get install python3-jupyter-client python3-ipykernel")


def first_stdout(client, code):
    msg_id = client.execute(code)
    while True:
        msg = client.get_iopub_msg(timeout=60)
        if msg["parent_header"].get("msg_id") == msg_id and msg["msg_type"] == "stream":
            return


def until_idle(client, code):
    msg_id = client.execute(code)
    while True:
        msg = client.get_iopub_msg(timeout=60)
        if msg["parent_header"].get("msg_id") == msg_id and msg["content"].get("execution_state") == "idle":
            return


def main():
    starts, rounds = int(sys.argv[1]), int(sys.argv[2])
    cold, warm = [], []
    for i in range(starts):
        began = time.monotonic()
        manager = KernelManager()
        manager.start_kernel()
        client = manager.client()
        client.start_channels()
        client.wait_for_ready(timeout=60)
        first_stdout(client, "print(1)")
        cold.append(time.monotonic() - began)
        if i == 0:
            until_idle(client, "1+1")
            for _ in range(rounds):
                began = time.monotonic()
                until_idle(client, "1+1")
                warm.append(time.monotonic() - began)
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    json.dump({"start to first stdout of print(1)": cold, "warm 1+1": warm}, sys.stdout)


main()
