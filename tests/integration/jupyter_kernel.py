#!/usr/bin/python3
"""carrel kernel and its kernelspecs, as Debian's jupyter_client, nbconvert and nbclient use them, into a real sandbox."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from appliance import TOP, Appliance  # noqa: E402
from notebook import REPLY_S, Notebook  # noqa: E402
from ws_cutter import WsCutter  # noqa: E402

CARREL = os.path.join(TOP, "build", "carrel")


def kernelspecs(prefix):
    subprocess.run([CARREL, "kernelspec", "install", "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
    kernels = os.path.join(prefix, "share/jupyter/kernels")
    for name, language in (("carrel-python", "Python"), ("carrel-bash", "Bash")):
        with open(os.path.join(kernels, name, "kernel.json"), encoding="utf-8") as f:
            spec = json.load(f)
        assert spec["display_name"] == f"{language} (Carrel)" and spec["interrupt_mode"] == "message", spec
        assert os.access(spec["argv"][0], os.X_OK), spec
    again = tempfile.mkdtemp(dir=prefix)
    for how in ([], ["--user"], ["--sys-prefix"], ["--prefix", again]):
        env = {**os.environ, "HOME": again, "VIRTUAL_ENV": again}
        env.pop("JUPYTER_DATA_DIR", None)
        env.pop("XDG_DATA_HOME", None)
        subprocess.run([CARREL, "kernelspec", "install"] + how, check=True, env=env, stdout=subprocess.DEVNULL)
        subprocess.run([CARREL, "kernelspec", "remove"] + how, check=True, env=env)
        assert not [f for _, _, files in os.walk(again) for f in files], how
    return os.path.join(prefix, "share/jupyter")


def sandboxes(a):
    return a.json("GET", "/v1/sandboxes")["sandboxes"]


def session(a, folder):
    """Executes, input, interrupt, death, restart, shutdown."""
    with open(os.path.join(folder, "data.csv"), "w", encoding="ascii") as f:
        f.write("a,b\n1,2\n")
    os.mkdir(os.path.join(folder, "sub"))
    with open(os.path.join(folder, "sub", "here.txt"), "w", encoding="ascii") as f:
        f.write("here")
    n = Notebook(folder)
    assert n.run("6*7")[1][2][1]["data"]["text/plain"] == "42"
    assert n.text("import pandas as pd; print(pd.read_csv('data.csv').b[0], open('sub/here.txt').read())") == "2 here\n"
    n.run("open('sub/made.txt', 'w').write('made'); open('data.csv', 'a').write('3,4\\n')")
    deadline = time.monotonic() + 20
    while not os.path.exists(os.path.join(folder, "sub", "made.txt")) and time.monotonic() < deadline:
        time.sleep(0.05)
    with open(os.path.join(folder, "data.csv"), encoding="ascii") as f:
        assert f.read() == "a,b\n1,2\n3,4\n"
    assert n.text("print(input('q '))", allow_stdin=True, stdin_hook=lambda m: n.kc.input("typed")) == "typed\n"
    n.kc.execute("print('in', flush=True)\nimport time\ntime.sleep(600)")
    while n.kc.get_iopub_msg(timeout=REPLY_S)["msg_type"] != "stream":
        pass
    n.km.interrupt_kernel()
    assert n.kc.get_shell_msg(timeout=REPLY_S)["content"]["ename"] == "KeyboardInterrupt"
    reply, out = n.run("import os; os._exit(3)")
    assert reply["ename"] == "KernelDied" and "3" in reply["evalue"], reply
    assert n.km.is_alive() and n.text("print('fresh')") == "fresh\n"
    n.run("kept = 1; open('stays.txt', 'w').write('x')")
    before = [s["id"] for s in sandboxes(a)]
    n.km.restart_kernel()
    n.kc.wait_for_ready(timeout=REPLY_S)
    assert n.text("import os; print('kept' in globals(), os.path.exists('stays.txt'))") == "False True\n"
    assert [s["id"] for s in sandboxes(a)] == before and len(before) == 1, before
    n.end()
    assert sandboxes(a) == []
    left = [f for f in os.listdir(os.path.dirname(n.km.connection_file)) if f.endswith(".carrel")]
    assert not left, left


def once(told):
    """A text may come in pieces: what is the same as the one before it is left out."""
    told = list(told)
    return [m for i, m in enumerate(told) if m[1] != "stream" or i == 0 or m != told[i - 1]]


def states(a, folder):
    """Busy comes at once and once, whatever the way to the appliance takes; an interrupt's idle is no cell's end."""
    n = Notebook(folder)
    n.run("1")
    os.kill(a.pid_of("carreld"), signal.SIGSTOP)
    try:
        first, second = n.kc.execute("print('so')"), n.kc.execute("2")
        told = [n.kc.get_iopub_msg(timeout=REPLY_S)]
    finally:
        os.kill(a.pid_of("carreld"), signal.SIGCONT)
    while told[-1]["parent_header"].get("msg_id") != second or told[-1]["content"].get("execution_state") != "idle":
        told.append(n.kc.get_iopub_msg(timeout=REPLY_S))
    told = once((m["parent_header"]["msg_id"], m["content"].get("execution_state", m["msg_type"])) for m in told)
    assert told == [(first, "busy"), (first, "execute_input"), (first, "stream"), (first, "idle"), (second, "busy"),
                    (second, "execute_input"), (second, "execute_result"), (second, "idle")], told
    n.kc.execute("print('in', flush=True)\nimport time\ntime.sleep(600)")
    while n.kc.get_iopub_msg(timeout=REPLY_S)["msg_type"] != "stream":
        pass
    n.km.interrupt_kernel()
    told = []
    while [m["content"].get("execution_state") for m in told].count("idle") < 2:
        told.append(n.kc.get_iopub_msg(timeout=REPLY_S))
    # The end of the line may come after the interrupt was asked for.
    told = [(m["parent_header"]["msg_type"], m["content"].get("execution_state", m["msg_type"])) for m in told
            if m["msg_type"] != "stream"]
    assert told == [("interrupt_request", "busy"), ("execute_request", "error"), ("execute_request", "idle"),
                    ("interrupt_request", "idle")], told
    n.end()


def goes_away(a, folder):
    """A client that ends without a word leaves a paused sandbox, not a dead one."""
    n = Notebook(folder)
    n.run("x = 1")
    n.km.provisioner.process.send_signal(signal.SIGTERM)
    n.km.provisioner.process.wait(30)
    assert [s["state"] for s in sandboxes(a)] == ["paused"], sandboxes(a)
    a.kill(sandboxes(a)[0]["id"])
    n.kc.stop_channels()


def cuts(a, folder):
    """Cut at random in the middle of output: every line once, in order, and every reply."""
    cutter = WsCutter(a.port, seed=11, every=(3000, 90000))
    try:
        n = Notebook(folder, CARREL_URL=f"http://127.0.0.1:{cutter.port}")
        want = "".join(f"{i} {'x' * 1000}\n" for i in range(600))
        got = n.text("import time\nfor i in range(600): print(i, 'x' * 1000, flush=True); time.sleep(0.002)")
        assert got == want, (len(got), len(want))
        for i in range(30):
            assert n.run(f"{i}")[1][-2][1]["data"]["text/plain"] == str(i)
            cutter.cut() if i % 5 == 0 else None
        # What is asked while it is away is kept and sent.
        cutter.refusing = True
        cutter.cut()
        n.kc.execute("print('later')")
        time.sleep(1)
        cutter.refusing = False
        got = ""
        while not got.endswith("later\n"):  # in one message or two
            got += n.kc.get_iopub_msg(timeout=REPLY_S)["content"].get("text", "")
        assert cutter.cuts > 5, cutter.cuts
        n.end()
    finally:
        cutter.close()
    return f"{cutter.cuts} cuts"


def carreld_restarts(a, folder):
    """carreld is killed under cells: each runs once, each gets its reply, no output is missing or doubled."""
    n = Notebook(folder)
    n.run("n = 0")
    for code, pause_s in (("import time\nn += 1\nfor i in range(40): print(i, flush=True); time.sleep(0.05)", 0.8),
                          ("n += 1\nprint('short')", 0)):
        n.kc.execute(code)
        waiting = n.kc.execute("print('behind', n)")
        time.sleep(pause_s)
        a.carreld_kill()
        got, replies = [], []
        while len(replies) < 2:
            replies.append(n.kc.get_shell_msg(timeout=REPLY_S))
        while True:
            m = n.kc.get_iopub_msg(timeout=REPLY_S)
            if m["msg_type"] == "stream":
                got.append(m["content"]["text"])
            if m["parent_header"].get("msg_id") == waiting and m["content"].get("execution_state") == "idle":
                break
        assert [r["content"]["status"] for r in replies] == ["ok", "ok"], replies
        want = "".join(f"{i}\n" for i in range(40)) + "behind 1\n" if pause_s else "short\nbehind 2\n"
        assert sorted("".join(got).split()) == sorted(want.split()), got
        if "".join(got) != want:
            print("out of order:", got)
    n.end()


def notebook(a, folder):
    """A notebook with a table and a plot, by the programs people run."""
    try:
        import nbformat
        import nbconvert  # noqa: F401  # pylint: disable=unused-import
    except ImportError:
        return "skipped: Debian's python3-nbconvert is not installed"
    with open(os.path.join(folder, "squares.csv"), "w", encoding="ascii") as f:
        f.write("x,y\n" + "".join(f"{i},{i * i}\n" for i in range(50)))
    cells = ["%matplotlib inline\nimport pandas as pd\nd = pd.read_csv('squares.csv')\nd.describe()",
             "d.plot(x='x', y='y');", "d.head(3).to_csv('out.csv'); print(len(d))"]
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    nbformat.write(nb, os.path.join(folder, "n.ipynb"))
    p = subprocess.run(["/usr/bin/python3", "-m", "nbconvert", "--to", "notebook", "--execute", "--output", "done.ipynb",
                        "--ExecutePreprocessor.kernel_name=carrel-python", "n.ipynb"],
                       cwd=folder, capture_output=True, text=True, timeout=180)
    assert p.returncode == 0, p.stderr[-3000:]
    done = nbformat.read(os.path.join(folder, "done.ipynb"), 4)
    kinds = [[(o.output_type, sorted(o.get("data", {}))) for o in c.outputs] for c in done.cells]
    assert kinds == [[("execute_result", ["text/html", "text/plain"])], [("display_data", ["image/png", "text/plain"])],
                     [("stream", [])]], kinds
    with open(os.path.join(folder, "out.csv"), encoding="ascii") as f:
        assert len(f.readlines()) == 4
    # A cell that fails ends it, with the traceback.
    nb.cells = [nbformat.v4.new_code_cell(c) for c in ("1/0", "print('never')")]
    nbformat.write(nb, os.path.join(folder, "bad.ipynb"))
    p = subprocess.run(["/usr/bin/python3", "-m", "nbconvert", "--to", "notebook", "--execute",
                        "--ExecutePreprocessor.kernel_name=carrel-python", "bad.ipynb"],
                       cwd=folder, capture_output=True, text=True, timeout=180)
    assert p.returncode != 0 and "ZeroDivisionError" in p.stderr, p.stderr[-500:]
    assert sandboxes(a) == [], sandboxes(a)
    return None


def wrong(a, folder):
    """Nothing to reach, a wrong key, no file: said, and an exit code."""
    for argv, code in ((["kernel"], 2), (["kernel", "-f", folder + "/none.json"], 1), (["kernelspec"], 2),
                       (["kernelspec", "install", "--user", "--prefix", folder], 2),
                       (["kernel", "-f", "x", "--files", folder + "/none"], 2)):
        p = subprocess.run([CARREL] + argv, capture_output=True, text=True, timeout=30)
        assert p.returncode == code and p.stderr.startswith("carrel"), (argv, p)
    connection = {"transport": "ipc", "ip": os.path.join(folder, "k"), "key": "k", "signature_scheme": "hmac-sha256",
                  **{f"{n}_port": i for i, n in enumerate(("shell", "iopub", "stdin", "control", "hb"), 1)}}
    with open(os.path.join(folder, "c.json"), "w", encoding="ascii") as f:
        json.dump(connection, f)
    for env, code in (({"CARREL_TOKEN": "wrong"}, 1), ({"CARREL_URL": "http://127.0.0.1:1"}, 3)):
        p = subprocess.run([CARREL, "kernel", "-f", os.path.join(folder, "c.json")], capture_output=True, text=True,
                           env={**os.environ, **env}, timeout=60)
        assert p.returncode == code and "carrel" in p.stderr, (env, p)
    assert sandboxes(a) == [], sandboxes(a)


def main():
    prefix = tempfile.mkdtemp(prefix="carrel-prefix-")
    try:
        os.environ["JUPYTER_PATH"] = kernelspecs(prefix)
        os.environ["JUPYTER_RUNTIME_DIR"] = tempfile.mkdtemp(dir=prefix)
        with Appliance() as a:
            os.environ.update(CARREL_URL=f"http://127.0.0.1:{a.port}", CARREL_TOKEN=a.token)
            for step in (session, states, notebook, goes_away, cuts, carreld_restarts, wrong):
                began = time.monotonic()
                said = step(a, tempfile.mkdtemp(dir=prefix))
                print(f"{step.__name__}: {time.monotonic() - began:.1f} s{' ' + said if said else ''}", flush=True)
    finally:
        shutil.rmtree(prefix, ignore_errors=True)


main()
