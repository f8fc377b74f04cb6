#!/usr/bin/python3
"""The Bash kernel, driven as a client does: one process for each test.

usage: kernel_bash.py [TEST]...
"""
import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
SKIP = 77

try:
    import zmq  # noqa: F401
    from kernel_client import Client, PORTS, TOP, elapsed, remove, user_folder
except ImportError as e:
    print(f"skipped: {e.name} is missing (apt-get install python3-jupyter-client)")
    sys.exit(SKIP)

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgAAACAAAB4iG8MwAAAABJRU5ErkJggg==")
HEIR = "it has the same variables, functions, options and directory, but no jobs.\n"
LOST = "variables, functions, options and directory are as at the beginning.\n"


@contextlib.contextmanager
def kernel(binary, folder):
    home = tempfile.mkdtemp(prefix="bash-", dir=folder)
    connection = {"transport": "ipc", "ip": home + "/k", "key": "key", "signature_scheme": "hmac-sha256", **PORTS}
    path = os.path.join(home, "connection.json")
    with open(path, "w", encoding="ascii") as f:
        json.dump(connection, f)
    env = dict(os.environ, HOME=home, TMPDIR=home, LC_ALL="C.UTF-8")
    process = subprocess.Popen([binary, "-f", path], cwd=home, env=env, stdin=subprocess.DEVNULL,
                               start_new_session=True)
    client = None
    try:
        # Bound last: a client that connects before tries again too late for what the first cell asks.
        while not os.path.exists(home + "/k-4"):
            assert process.poll() is None
            time.sleep(0.001)
        client = Client(home + "/k", b"key")
        client.process, client.home = process, home
        yield client
        shell = shell_pid(client)
        client.send(client.control, "shutdown_request", {"restart": False})
        assert client.receive(client.control).content == {"status": "ok", "restart": False}
        assert process.wait(5) == 0
        # Neither the shell nor a folder of its own is left.
        assert not shell or not os.path.exists(f"/proc/{shell}/exe"), shell
        assert not [n for n in os.listdir(home) if n.startswith("bash-")], os.listdir(home)
    finally:
        if client:
            client.close()
        if process.poll() is None:
            process.kill()
            process.wait()


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(p) for p in f.read().split()]


def shell_pid(k):
    found = children(k.process.pid)
    assert len(found) <= 1, found
    return found[0] if found else None


def said(k, code, **options):
    """What a cell that is to succeed wrote."""
    r = k.run(code, **options)
    assert r.status == "ok", (code, r.reply, r.text())
    return r.text()


def failed(k, code, ename, evalue=None, **options):
    r = k.run(code, **options)
    assert r.status == "error" and r.ename == ename, (code, r.reply, r.text())
    assert evalue in (None, r.reply["evalue"]), (code, r.reply)
    assert r.types.count("error") == 1 and r.types[-1] == "error", r.types
    assert r.outputs[-1].content == {x: r.reply[x] for x in ("ename", "evalue", "traceback")}
    assert len(r.reply["traceback"]) == 1
    return r


def done(k):
    """Nothing is out of step, and what was known is."""
    assert said(k, "echo in step") == "in step\n"


# ---- cells


def test_a_shell_that_lives_on(k):
    r = k.run("echo out; echo err >&2")
    assert (r.text("stdout"), r.text("stderr"), r.status) == ("out\n", "err\n", "ok")
    assert r.reply == {"status": "ok", "execution_count": 1, "payload": [], "user_expressions": {}}
    said(k, "x=1; arr=(a 'b c'); declare -A map=([k]=v); f() { echo \"f $1\"; }; cd /usr; export E=2; alias g='echo alias'")
    assert said(k, "echo $x \"${arr[1]}\" ${map[k]} $PWD; f 1; sh -c 'echo $E'\ng") == "1 b c v /usr\nf 1\n2\nalias\n"
    assert said(k, "") == "" and said(k, "# only this") == "" and said(k, "\n\n") == ""
    pid = said(k, "echo $$")
    assert said(k, "echo $$; cat <<END\nhere\nEND") == pid + "here\n"
    # As with a script, a cell says so when it defines what it then uses.
    assert said(k, "shopt -s extglob\necho @(a|b)") == "@(a|b)\n"


def test_status(k):
    failed(k, "false", "ExitStatus", "1")
    assert said(k, "echo $?") == "1\n"
    failed(k, "(exit 7)", "ExitStatus", "7")
    # Not by what the kernel itself asks the shell.
    k.ask("complete_request", {"code": "ech", "cursor_pos": 3})
    k.run("true", silent=True)
    assert said(k, "echo $?") == "7\n"
    assert failed(k, "echo a; nosuchthing", "ExitStatus", "127").text("stderr") == "bash: nosuchthing: command not found\n"
    failed(k, "return 5", "ExitStatus", "5")
    failed(k, "kill -TERM $BASHPID & wait $!; sh -c 'kill -9 $$'", "ExitStatus", "137")
    assert said(k, "false | true") == ""
    failed(k, "set -o pipefail; false | true", "ExitStatus", "1")
    said(k, "set +o pipefail")
    assert [k.run(c).reply["execution_count"] for c in ("true", "false", "fi")] == [11, 12, 13]
    assert k.run("true", silent=True).reply["execution_count"] == 13
    assert k.run("echo x", silent=True).outputs == []


def test_syntax_errors(k):
    for code in ("echo 'open", "if true", "fi", "a b )", "for", "{", "}", "f() {", "case x in", "((1+", "<<E; )"):
        r = k.run(code)
        assert r.status == "error" and r.ename == "ExitStatus" and r.text("stderr"), (code, r.reply)
        done(k)
    # Debian 12's bash can break its own memory over this one: then it ends, and another goes on.
    assert k.run("echo $(").ename == "ExitStatus"
    k.run("true")
    k.run("true")
    done(k)
    # A here-document that the cell's end closes.
    r = k.run("cat <<E\nabc")
    assert r.text("stdout") == "abc\n" and "here-document" in r.text("stderr")
    assert failed(k, "a\0b", "SyntaxError").text() == ""
    k.run("echo \\")
    done(k)


def test_what_ends_scripts(k):
    """set -e and set -u end a cell as they would a script; the shell lives on."""
    pid = said(k, "x=41; echo $$")
    assert failed(k, "set -e\necho a\n(exit 3)\necho b", "ExitStatus", "3").text("stdout") == "a\n"
    assert failed(k, "f() { false; echo no; }; f; echo no", "ExitStatus", "1").text("stdout") == ""
    assert failed(k, "y=$(exit 4); echo no", "ExitStatus", "4").text("stdout") == ""
    assert said(k, "if false; then :; fi; false || true; ! true; echo $x $$") == "41 " + pid
    assert failed(k, "set +e; set -u\necho $nope\necho no", "ExitStatus", "1").text("stdout") == ""
    assert failed(k, "echo ${other}\necho no", "ExitStatus", "1").text("stdout") == ""
    assert said(k, "set +u; echo [$nope] $x $$") == "[] 41 " + pid
    # Both together bash itself ends for; what it knew goes on.
    r = failed(k, "set -euo pipefail\necho $nope\necho no", "ExitStatus", "1")
    assert "nope: unbound variable" in r.text("stderr") and r.text("stderr").endswith(HEIR), r.text()
    assert said(k, "set +eu; echo $x") == "41\n"
    assert failed(k, "set -euo pipefail; false | true; echo no", "ExitStatus", "1").text("stdout") == ""


def test_a_shell_that_ends(k):
    said(k, "x='a b'; arr=(1 '2 3'); declare -A m=([k]='v w'); f() { echo f; }; readonly r=9; export E=1; alias g='echo g'\n"
            "cd /usr; umask 027; shopt -s nullglob; set -o pipefail")
    r = failed(k, "exit 3", "ExitStatus", "3")
    assert r.text("stderr") == "The shell ended with exit code 3. A new one was started: " + HEIR
    assert said(k, "echo \"$x\" \"${arr[1]}\" \"${m[k]}\" $r $PWD; f; sh -c 'echo $E'; umask; shopt -q nullglob && [[ -o pipefail ]]\ng") == \
        "a b 2 3 v w 9 /usr\nf\n1\n0027\ng\n"
    r = k.run("exit 0")
    assert r.status == "ok" and r.text("stderr").endswith(HEIR)
    # Nor does it take over what ends a shell.
    said(k, "set -t; true")
    # When it ends is bash's own affair: between the commands of this cell, or before the next.
    for _ in range(2):
        k.run("true; true")
    assert said(k, "true; echo $x") == "a b\n"
    # A trap of the user's own is run, and is in the place of ours.
    r = k.run("trap 'echo bye' EXIT; exit")
    assert r.text("stdout") == "bye\n" and r.text("stderr").endswith(LOST)
    for code in ("kill -9 $$", "exec sh -c 'kill -9 $$'", "sh -c 'kill -9 $PPID'; sleep 9"):
        r = failed(k, code, "ShellDied", "the shell was ended by SIGKILL")
        assert r.text("stderr") == "The shell was ended by SIGKILL. A new one was started: " + LOST
        done(k)
    failed(k, "exec sh -c 'exit 6'", "ExitStatus", "6")
    failed(k, "kill -SEGV $$", "ShellDied", "the shell was ended by SIGSEGV")
    # Between two cells: the next one is told.
    said(k, "y=5")
    os.kill(shell_pid(k), signal.SIGKILL)
    time.sleep(0.1)
    r = k.run("echo [$y]")
    assert r.text("stdout") == "[]\n" and r.text("stderr").endswith(LOST), r.text()
    # A run of all stops there.
    ids = [k.start(c) for c in ("echo 1", "kill -9 $$", "echo 2")]
    assert [k.finish(i).status for i in ids] == ["ok", "error", "aborted"]


def test_run_all_stops_at_an_error(k):
    ids = [k.start(c) for c in ("echo 1", "false", "echo 2", "echo 3")]
    assert [k.finish(i).status for i in ids] == ["ok", "error", "aborted", "aborted"]
    ids = [k.start(c, stop_on_error=False) for c in ("false", "echo 5")]
    assert [k.finish(i).status for i in ids] == ["error", "ok"]


def test_descriptors(k):
    # Of the kernel's own nothing is open in what the user's code starts.
    listing = said(k, "sh -c 'ls -l /proc/$$/fd' | grep -o '[0-9]* -> .*'").splitlines()
    names = dict(line.split(" -> ") for line in listing)
    assert set(names) == {"0", "1", "2"} and "memfd:stdin" in names["0"], names
    # Standard output and error go where they were sent, and only they.
    said(k, f"exec 7>&1 8>&2; exec >{k.home}/out 2>&1; echo one; nosuch || true")
    assert k.run("echo two").text() == ""
    assert said(k, f"exec >&7 2>&8 7>&- 8>&-; cat {k.home}/out") == "one\nbash: nosuch: command not found\ntwo\n"
    assert said(k, "exec </etc/passwd; read l; echo $l").startswith("root:")
    assert k.run("exec 0<&-; read l; echo $?").text("stdout") == "1\n"
    done(k)
    k.run("exec 0<&- 1>&- 2>&-")
    k.run("echo nowhere")
    assert k.run("exit 0").text("stderr").startswith("The shell ended")
    done(k)


# ---- output


def test_many_lines(k):
    r = k.run("for ((i = 0; i < 10000; i++)); do echo $i; done; echo hi")
    assert r.text() == "".join(f"{i}\n" for i in range(10000)) + "hi\n"
    assert len(r.streams()) < 100
    r = k.run("for i in {1..30000}; do echo $i; echo $i >&2; done")
    want = "".join(f"{i}\n" for i in range(1, 30001))
    assert r.text("stdout") == want and r.text("stderr") == want


def test_a_hundred_megabytes(k):
    msg_id = k.start("head -c 100000000 /dev/zero | tr '\\0' x")
    time.sleep(3)  # the client reads nothing
    r = k.finish(msg_id)
    assert sum(len(m.content["text"]) for m in r.streams()) == 100_000_000
    with open(f"/proc/{k.process.pid}/status", encoding="ascii") as f:
        peak = int([line for line in f if line.startswith("VmHWM:")][0].split()[1])
    assert peak < 100_000, peak


def test_bytes(k):
    assert said(k, "printf 'a\\xff\\xe4\\xbdb\\0c\\e[0m\\n'") == "a\ufffd\ufffdb\x00c\x1b[0m\n"
    assert said(k, "echo '\U0001f600 \u4f60'") == "\U0001f600 \u4f60\n"


def test_background(k):
    began = time.monotonic()
    msg_id = k.start("(sleep 0.4; echo late) & echo now")
    r = k.finish(msg_id)
    assert r.text() == "now\n" and elapsed(began) < 0.4
    # It belongs to the cell that was started last.
    while (m := k.receive(k.iopub)).type != "stream":
        pass
    assert m.content["text"] == "late\n" and m.parent["msg_id"] == msg_id
    said(k, "sleep 0.3 & job=$!; sleep 60 & other=$!")
    assert said(k, "wait $job; echo $?; kill $other; wait $other; echo $?") == "0\n143\n"
    # One that goes on does not hold the end, nor its output.
    assert said(k, "yes >/dev/null & yes=$!; echo on") == "on\n"
    said(k, "kill $yes")
    r = k.run("while :; do echo flood; done & flood=$!; echo on")
    assert r.status == "ok" and "on\n" in r.text()
    k.run("kill $flood; wait $flood")
    for _ in range(20):
        said(k, "sleep 30 & echo x; kill $!")
    assert said(k, "wait; jobs") == ""


# ---- interrupts


def interrupted(k, code, times=1, within=1.0, evalue="", **options):
    msg_id = k.start(code, **options)
    time.sleep(0.3)
    for _ in range(times):
        began = time.monotonic()
        k.interrupt()
        if times > 1:
            time.sleep(0.3)
    r = k.finish(msg_id)
    assert r.ename == "KeyboardInterrupt" and r.reply["evalue"] == evalue, (code, r.reply)
    assert elapsed(began) < within, (code, elapsed(began))
    return r


def test_interrupts(k):
    k.interrupt()
    pid = said(k, "x=41; echo $$")
    for code in ("sleep 60; echo no", "while :; do :; done", "while sleep 0.01; do :; done", "for ((;;)); do echo x; done",
                 "(sleep 60; echo no); echo no", "sleep 60 | cat", "f() { sleep 60; echo no; }; f", "y=$(sleep 60)",
                 "sleep 60 & wait", "builtin read z < <(sleep 60)", "eval 'eval \"sleep 60\"'; echo no",
                 "yes", "cat </dev/zero >/dev/null", "trap 'echo T >&2' ERR; sleep 60"):
        r = interrupted(k, code)
        assert "no" not in r.text("stdout").split(), code
    assert said(k, "trap - ERR; echo $x $$") == "41 " + pid
    # Quick: of ten, the usual one.
    times = []
    for _ in range(10):
        msg_id = k.start("sleep 60")
        time.sleep(0.1)
        began = time.monotonic()
        k.interrupt()
        k.finish(msg_id)
        times.append(elapsed(began))
    assert sorted(times)[5] < 0.05, times
    # At any instant of a short cell: either it ends or it is interrupted.
    for n in range(60):
        msg_id = k.start("echo short")
        time.sleep(n * 0.00005)
        k.interrupt()
        r = k.finish(msg_id)
        assert (r.status, r.ename) in (("ok", None), ("error", "KeyboardInterrupt")), r.reply
    # Many, faster than the shell comes back.
    ids = [k.start("sleep 0.01; echo x", stop_on_error=False) for _ in range(80)]
    for _ in range(60):
        time.sleep(0.005)
        k.interrupt()
    for i in ids:
        r = k.finish(i)
        assert r.text().strip() == "x" if r.status == "ok" else r.text("stderr").strip() == "", (r.reply, r.text())
    assert said(k, "echo $x $$") == "41 " + pid


def test_interrupts_that_are_not_heeded(k):
    r = k.finish(later(k, 0.3, k.start("trap 'echo trapped' INT; sleep 60; echo after")))
    assert r.status == "ok" and r.text() == "trapped\nafter\n"
    said(k, "trap - INT")
    # Jobs in groups of their own: the second reaches them.
    interrupted(k, "set -m; sleep 60; echo no", times=2)
    said(k, "set +m")
    interrupted(k, "trap '' INT; sleep 60", times=3, evalue="the shell did not heed it and was ended")
    interrupted(k, "exec sleep 60", evalue="the shell did not heed it and was ended")
    done(k)


def later(k, seconds, msg_id):
    time.sleep(seconds)
    k.interrupt()
    return msg_id


def test_shutdown_while_it_runs(k):
    k.start("trap '' INT TERM HUP; sleep 60")
    time.sleep(0.3)


# ---- a shell that is made not to answer


def test_deaf_shells(k):
    for code in ("builtin() { :; }", "enable -n printf", "exec 10<&- 11<&- 12<&- 2>/dev/null", "ulimit -n 3",
                 "unset -f __carrel_end; __carrel_end() { :; }", "TMOUT=1; PROMPT_COMMAND='sleep 0.1'",
                 "readonly PS1='$ ' PS2='> ' PROMPT_COMMAND='echo p'", "set -o posix", "shopt -s extdebug; set -T",
                 "trap 'echo D' DEBUG", "trap 'echo R' RETURN", "set -v -x", "IFS=/; set -f", "alias '{=echo' exit=echo",
                 "printf() { :; }; read() { :; }; kill() { :; }; local() { :; }", "kill 0; kill -HUP 0", "set -n; set -k -t"):
        k.run(code)
        k.run("echo a")
        k.run("echo b")
        with contextlib.suppress(ProcessLookupError, TypeError):
            os.kill(shell_pid(k), signal.SIGKILL)
        k.run("true")
        assert said(k, "echo $-").strip() == "hiBEs"
        done(k)


# ---- input


def ask(k, code, *answers, **options):
    msg_id = k.start(code, allow_stdin=True, **options)
    asked = []
    for answer in answers:
        m = k.receive(k.stdin)
        assert m.type == "input_request" and m.parent["msg_id"] == msg_id
        asked.append((m.content["prompt"], m.content["password"]))
        k.send(k.stdin, "input_reply", {"value": answer})
    return k.finish(msg_id), asked


def test_input(k):
    assert ask(k, "read -p 'name? ' n; echo \"[$n]\"", " a b ")[0].text() == "[a b]\n"
    r, asked = ask(k, "read -rsp 'pass\nword: ' n; read m; echo \"$n-$m\"", "se\\cret \u4f60", "m")
    assert r.text() == "se\\cret \u4f60-m\n" and asked == [("pass\nword: ", True), ("", False)]
    r, _ = ask(k, "f() { local q; read -r q; echo $q; }; f; (read w; echo $w); x=$(read v; echo $v); echo $x; IFS=, read s t; echo $t", "1", "2", "3", "4,5")
    assert r.text() == "1\n2\n3\n5\n"
    # One line serves several reads, and programs.
    r, _ = ask(k, "read -n 1 a; read -n 1 b; echo $a$b; head -c 3", "hello")
    assert r.text() == "he\nllo"
    # Where something else is to be read nobody is asked.
    assert said(k, "echo a | { read x; echo $x; }; read y <<<b; echo $y; while read z; do echo $z; done < <(echo c); echo d >f; read -u 5 w 5<f; echo $w; rm f",
                allow_stdin=True) == "a\nb\nc\nd\n"
    assert said(k, "cat; python3 -c 'import sys; print(repr(sys.stdin.read()))'; mapfile m; echo ${#m[@]}", allow_stdin=True) == "''\n0\n"
    # The end of input, and nobody to ask.
    assert ask(k, "read x; echo $?", "\x04")[0].text() == "1\n"
    assert said(k, "read x; echo $?") == "1\n"
    # An interrupt; the answer to a question that was interrupted is nobody's.
    msg_id = k.start("read x; echo no", allow_stdin=True)
    k.receive(k.stdin)
    k.interrupt()
    assert k.finish(msg_id).ename == "KeyboardInterrupt"
    k.send(k.stdin, "input_reply", {"value": "stale"})
    time.sleep(0.2)
    assert ask(k, "read x; echo $x", "fresh")[0].text() == "fresh\n"
    # The shell ends meanwhile.
    msg_id = k.start("(sleep 0.3; kill -9 $$) & read x; echo no", allow_stdin=True)
    k.receive(k.stdin)
    assert k.finish(msg_id).ename == "ShellDied"
    done(k)


# ---- what is shown


def test_display(k):
    with open(os.path.join(k.home, "dot.png"), "wb") as f:
        f.write(PNG)
    r = k.run("echo before; display dot.png; echo after")
    assert r.types == ["stream", "display_data", "stream"]
    shown = r.outputs[2].content
    assert base64.b64decode(shown["data"]["image/png"]) == PNG and shown["data"]["text/plain"]
    assert shown["metadata"] == {"image/png": {"width": 1, "height": 1}}
    assert "image/png" in k.run("cat dot.png | display").data()[0]
    assert k.run("echo '<b>x</b>' | displayHTML").data()[0]["text/html"] == "<b>x</b>\n"
    assert k.run("echo 'alert(1)' | displayJS").data()[0]["application/javascript"] == "alert(1)\n"
    r = k.run("seq 3 | displayResult; echo after; display dot.png")
    assert r.types == ["execute_result", "stream", "display_data"], r.types
    assert r.outputs[1].content["data"] == {"text/plain": "1\n2\n3"} and r.outputs[1].content["execution_count"] == 5
    assert "image/svg+xml" in k.run("echo '<svg></svg>' | display").data()[0]
    r = k.run("id=id_$RANDOM; for i in 1 2 3; do echo $i | displayHTML $id; done")
    assert r.types == ["display_data", "update_display_data", "update_display_data"]
    assert len({m.content["transient"]["display_id"] for m in r.outputs[1:]}) == 1
    # A new cell shows it anew.
    assert k.run("echo x | displayHTML $id").types == ["display_data"]
    assert k.run("for i in {1..8}; do display dot.png & done; wait").types == ["display_data"] * 8
    r = k.run("echo nothing | display; echo $?; display nowhere.png </dev/null || echo no; head -c 9000000 /dev/zero | display || echo large")
    assert r.text("stdout") == "1\nno\nlarge\n" and "8 MiB" in r.text("stderr") and r.data() == []
    failed(k, "display", "ExitStatus", "1")
    assert k.run("clear; echo x").types == ["clear_output", "stream"]
    assert said(k, "ls $__carrel_tmp") == "cell\n"


# ---- other requests


def complete(k, code, pos=None):
    r = k.ask("complete_request", {"code": code, "cursor_pos": len(code) if pos is None else pos})
    assert r["status"] == "ok" and r["cursor_end"] == (len(code) if pos is None else pos)
    return r["cursor_start"], r["matches"]


def test_completion(k):
    said(k, "myfunction() { :; }; myvariable=1; mkdir 'a dir'; touch 'a file' 'it'\\''s' 'do$lar' tool; chmod +x tool")
    assert complete(k, "myfun") == (0, ["myfunction"])
    assert complete(k, "echo; ech") == (6, ["echo"])
    assert "grep" in complete(k, "echo x | gre")[1]
    assert complete(k, "echo $myvar") == (5, ["$myvariable"])
    assert complete(k, "echo ${myvar") == (5, ["${myvariable}"])
    assert complete(k, 'echo "x$myvar') == (7, ["$myvariable"])
    assert "$HOME" in complete(k, "echo $HO")[1]
    assert complete(k, "cat a") == (4, ["a\\ dir/", "a\\ file"])
    assert complete(k, 'cat "a') == (4, ['"a dir/', '"a file"'])
    assert complete(k, "cat 'a f") == (4, ["'a file'"])
    assert complete(k, "cat it") == (4, ["it\\'s"]) and complete(k, "cat 'it") == (4, ["'it'\\''s'"])
    assert complete(k, "cat do") == (4, ["do\\$lar"]) and complete(k, 'cat "do') == (4, ['"do\\$lar"'])
    assert complete(k, "./to") == (0, ["./tool"]) and complete(k, "x=./to") == (2, ["./tool"])
    assert complete(k, "ls ~roo") == (3, ["~root/"])
    said(k, "cd 'a dir'; touch inner")
    assert complete(k, "cat in") == (4, ["inner"]) and complete(k, "cat ~/a\\ dir/in") == (4, ["~/a\\ dir/inner"])
    # Characters, not bytes; the middle of a text.
    assert complete(k, "\U0001f600\u4f60; myfun") == (4, ["myfunction"])
    assert complete(k, "myfun | cat", 5) == (0, ["myfunction"])
    assert not [m for m in complete(k, "")[1] + complete(k, "$")[1] if "__carrel" in m]


def test_nothing_is_run_by_looking(k):
    evil = f"touch {k.home}/evil"
    names = [f"$({evil})", f"`{evil}`", f"<({evil})", f"'; {evil}; '", f"\"; {evil}; \"", f"\n{evil}\n", f"; {evil};", f"$(\n{evil}\n)",
             f"a[$({evil})]", f"${{x[$({evil})]}}", f"${{x:-$({evil})}}", f"$((x[$({evil})]))", f"x=$({evil})", f"~$({evil})",
             f"$'\\x27; {evil}'", f"--; {evil}", f"-F '{evil}'", f"-C '{evil}'", f"a\\\n{evil}", f"!{evil}", f"%({evil})"]
    texts = [before + name + after for name in names for before in ("", "cat ", "${", "cat \"", "a=")
             for after in ("", "/x")[:1 + (before == "cat ")]]
    for text in texts:
        complete(k, text)
    for text in names:
        k.ask("is_complete_request", {"code": text})
        for pos in range(0, len(text), 3):
            k.ask("inspect_request", {"code": text, "cursor_pos": pos, "detail_level": 1})
    k.ask("history_request", {"hist_access_type": "search", "pattern": names[0], "raw": True, "output": False})
    assert not os.path.exists(k.home + "/evil")
    # Under options that change what a failure does, too.
    said(k, "set -eu; trap 'echo seen' DEBUG")
    pid = shell_pid(k)
    assert complete(k, "nosuchcomm") == (0, []) and complete(k, "echo $nosuchvar") == (5, [])
    assert shell_pid(k) == pid


def test_other_requests(k):
    info = k.ask("kernel_info_request", {})
    assert info["language_info"]["name"] == "bash" and info["language_info"]["file_extension"] == ".sh"
    assert info["language_info"]["mimetype"] == "text/x-sh" and info["language_info"]["codemirror_mode"] == "shell"
    assert k.ask("kernel_info_request", {}, k.control) == info

    def status(code):
        return k.ask("is_complete_request", {"code": code})["status"]

    assert {status(c) for c in ("echo", "", "if true; then :; fi", "cat <<E\nE", "echo \\\\", "@(a|b)", "$(x)")} == {"complete"}
    assert {status(c) for c in ("if true", "for i in 1", "echo 'x", 'echo "x', "echo $(x", "cat <<E", "a |", "a &&", "f() {", "x=(", "echo \\")} == {"incomplete"}
    assert {status(c) for c in ("fi", "a b )", "}", "x(", "a\0b")} - {"incomplete"} == {"invalid"}

    def inspect(code, pos=1):
        r = k.ask("inspect_request", {"code": code, "cursor_pos": pos, "detail_level": 0})
        return r["data"].get("text/plain", "") if r["found"] else None

    said(k, "f() { echo inside; }; v='a b'")
    assert "echo inside" in inspect("f 1") and inspect("v") == 'declare -- v="a b"\n' and "HOME=" in inspect("echo $HOME", 8)
    assert "builtin" in inspect("echo") and "COMMANDS" in inspect("if") and "/ls" in inspect("ls -l") and inspect("nonono") is None
    assert "builtin" in k.run("echo?").reply["payload"][0]["data"]["text/plain"]
    said(k, "echo one")
    said(k, "echo two")
    tail = k.ask("history_request", {"hist_access_type": "tail", "n": 2, "output": False, "raw": True})["history"]
    assert [row[2] for row in tail] == ["echo one", "echo two"] and tail[0][0] == 0
    found = k.ask("history_request", {"hist_access_type": "search", "pattern": "*one", "output": True, "raw": True})["history"]
    assert [row[2] for row in found] == [["echo one", None]]
    for body in (b'{"code":', b'{"cod":1}', b"[]", b'{"code":7}'):
        r = k.finish(k.send(k.shell, "execute_request", body))
        assert r.status == "error" and r.reply["evalue"]
    for kind in ("complete_request", "inspect_request", "is_complete_request"):
        assert k.ask(kind, {})["status"] == "error"
    assert k.ask("comm_info_request", {}) == {"status": "ok", "comms": {}}


def test_identity(k):
    said(k, "MINE=1; RANDOM=1")
    env = {"GIVEN": "a 'b' $(touch evil)\n", "not a name": "x"}
    assert k.ask("carrel_identity_request", {"entropy": "AAAA", "env": env, "key": ""}) == {"status": "ok"}
    assert said(k, "echo $MINE; sh -c 'echo \"$GIVEN\"'; [[ $RANDOM != 16838 ]] && ls") .split("\n\n")[0] == "1\na 'b' $(touch evil)"
    assert not os.path.exists(k.home + "/evil")
    assert k.ask("carrel_identity_request", {"entropy": "AAAA", "env": {"OTHER": "2"}, "key": ""}) == {"status": "ok"}
    assert said(k, "echo [$GIVEN] $OTHER; OTHER=3") == "[] 2\n"
    assert k.ask("carrel_identity_request", {"entropy": "AAAA", "env": {}, "key": ""}) == {"status": "ok"}
    assert said(k, "echo [$OTHER]") == "[3]\n"


def test_records_that_are_not_the_shells(k):
    """The pipe's name is no secret; what is written there must not bring anything out of step."""
    said(k, "printf 'E 1 2 3\\0E\\0A\\0A x\\0R\\0R\\x1f1\\0D\\0D\\x1fa\\x1fb\\x1fc\\0X\\0\\0zzz' >$__carrel_up")
    done(k)
    said(k, "head -c 9000000 /dev/zero | tr '\\0' x >$__carrel_up; head -c 100000 /dev/zero >$__carrel_up")
    done(k)
    said(k, "(while :; do echo junk >$__carrel_up; done) & junk=$!")
    done(k)
    said(k, "kill $junk; wait $junk 2>/dev/null || true")
    done(k)


def test_many_cells(k):
    before = len(os.listdir(f"/proc/{k.process.pid}/fd"))
    for n in range(300):
        assert said(k, f"echo {n}") == f"{n}\n"
    for n in range(10):
        k.run("exit 1" if n % 2 else "kill -9 $$")
    assert len(os.listdir(f"/proc/{k.process.pid}/fd")) == before
    assert len(children(k.process.pid)) == 1
    ids = [k.start(f"echo {n}") for n in range(300)]
    assert [k.finish(i).text() for i in ids] == [f"{n}\n" for n in range(300)]


def no_shell_is_left(binary, folder):
    """Of a kernel that is killed, idle or in a cell that holds on."""
    for code in (":", "sleep 100; :", "trap '' INT TERM HUP; while :; do :; done"):
        with contextlib.suppress(AssertionError), kernel(binary, folder) as k:
            k.run(":")
            shell = shell_pid(k)
            k.start(code)
            time.sleep(0.2)
            left = children(shell)
            k.process.kill()
            k.process.wait()
            deadline = time.monotonic() + 5
            while os.path.exists(f"/proc/{shell}/exe"):
                assert time.monotonic() < deadline, code
                time.sleep(0.01)
            for pid in left:
                os.kill(pid, signal.SIGKILL)  # what it ran is the user's
            raise AssertionError("no shutdown of what is dead")
        assert not os.path.exists(f"/proc/{shell}/exe"), code


# ----


def main():
    wanted = sys.argv[1:]
    tests = {n: f for n, f in globals().items() if n.startswith("test_") and (not wanted or n in wanted)}
    subprocess.run(["make", "-s", "build/carrel-bash"], cwd=TOP, check=True, stdout=subprocess.DEVNULL)
    folder = user_folder()
    try:
        for name, test in tests.items():
            began = time.monotonic()
            with kernel(os.path.join(TOP, "build", "carrel-bash"), folder) as k:
                test(k)
            print(f"{name}: {elapsed(began):.1f} s", flush=True)
        no_shell_is_left(os.path.join(TOP, "build", "carrel-bash"), folder)
    finally:
        remove(folder)


if __name__ == "__main__":
    main()
