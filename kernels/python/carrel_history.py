"""The shell's history: this session's in memory, earlier ones' in IPython's own file.

A cell only appends to a list; a thread of low needs writes what gathered. So a
restarted kernel still knows what was run before it, also by %history -g.
"""

import datetime
import os
import re
import sqlite3
import sys
import threading

from IPython.core.history import HistoryManager

# Seconds that cells gather before they are written together. A kernel that is
# killed loses no more than that of its history.
GATHER_S = 1.0
# What a history_request for a tail means without a number, as in the protocol's example.
TAIL = 10

TABLES = (
    "CREATE TABLE IF NOT EXISTS sessions (session integer primary key autoincrement, start timestamp,"
    " end timestamp, num_cmds integer, remark text)",
    "CREATE TABLE IF NOT EXISTS history (session integer, line integer, source text, source_raw text,"
    " PRIMARY KEY (session, line))",
    "CREATE TABLE IF NOT EXISTS output_history (session integer, line integer, output text,"
    " PRIMARY KEY (session, line))",
)


def history_file():
    folder = os.environ.get("IPYTHONDIR") or os.path.join(os.path.expanduser("~"), ".ipython")
    return os.path.join(folder, "profile_default", "history.sqlite")


class History(HistoryManager):
    """Its _i, _ii and _iii are plain attributes: they are always texts."""

    _i00 = _i = _ii = _iii = ""
    saved = None

    def save_from_now(self):
        """In the process that serves: keep what is run. Before, nothing is."""
        self.saved = Saved(self)

    def store_inputs(self, line_num, source, source_raw=None):
        raw = (source if source_raw is None else source_raw).rstrip("\n")
        if self._exit_re.match(raw.strip()):
            return
        source = source.rstrip("\n")
        self.input_hist_parsed.append(source)
        self.input_hist_raw.append(raw)
        self._i00, self._i, self._ii, self._iii = raw, self._i00, self._i, self._ii
        names = {"_i": self._i, "_ii": self._ii, "_iii": self._iii, f"_i{line_num}": raw}
        self.shell.user_ns.update(names)
        self.shell.user_ns_hidden.update(names)
        if self.saved:
            self.saved.add((line_num, source, raw))

    # IPython calls this before it looks into the file.
    def writeout_cache(self, conn=None):
        if self.saved:
            self.saved.write()

    def get_range(self, session=0, start=1, stop=None, raw=True, output=False):
        self.writeout_cache()
        return super().get_range(session, start, stop, raw, output)

    def end_session(self):
        """At %reset: the file goes on with the session it has."""

    # -- for history_request: (session, line, text) of earlier sessions, oldest first

    def earlier(self, raw, pattern=None, limit=-1):
        self.writeout_cache()
        where, values = "WHERE session != ?", [self.session_number]
        if pattern is not None:
            where += " AND history.source_raw GLOB ?"
            values.append(pattern)
        rows = self._run_sql(where + " ORDER BY session DESC, line DESC LIMIT ?", (*values, limit), raw=raw)
        return list(rows)[::-1]

    def earlier_session(self, session, start, stop, raw):
        self.writeout_cache()
        if session < 0:
            session += self.session_number
        return list(super().get_range(session, start, stop, raw)) if session > 0 else []


class Saved:
    """What is to be written, and the thread that writes it."""

    def __init__(self, history):
        self.history = history
        self.unsaved = []
        self.awake = False
        self.thread = None
        self.wanted = threading.Event()
        self.lock = threading.Lock()
        self.db = None
        self.failed = False

    def add(self, row):
        self.unsaved.append(row)
        if not self.awake:
            self.awake = True
            if self.thread is None:
                self.thread = threading.Thread(target=self._run, name="history", daemon=True)
                self.thread.start()
            self.wanted.set()

    def _run(self):
        never = threading.Event()
        while True:
            self.wanted.wait()
            never.wait(GATHER_S)
            self.wanted.clear()
            self.awake = False
            self.write()

    def write(self):
        with self.lock:
            try:
                self._write()
            except (OSError, sqlite3.Error) as e:
                self._give_up(e)

    def _give_up(self, error):
        self.unsaved.clear()
        if not self.failed:
            self.failed = True
            print(f"The history of cells is not kept in {history_file()}: {error}", file=sys.stderr)

    def _open(self):
        file = history_file()
        os.makedirs(os.path.dirname(file), exist_ok=True)
        db = sqlite3.connect(file, check_same_thread=False, timeout=5)
        # What a power cut may take is a history of commands.
        db.execute("PRAGMA synchronous = OFF")
        with db:
            for table in TABLES:
                db.execute(table)
        self.db = self.history.db = db

    def _write(self):
        if self.failed:
            self.unsaved.clear()
            return
        if self.db is None:
            self._open()
        rows, self.unsaved = self.unsaved, []
        if not rows:
            return
        with self.db:
            if not self.history.session_number:
                started = datetime.datetime.now().isoformat(" ")
                cursor = self.db.execute("INSERT INTO sessions VALUES (NULL, ?, NULL, NULL, '')", (started,))
                self.history.session_number = cursor.lastrowid
            session = self.history.session_number
            self.db.executemany("INSERT OR REPLACE INTO history VALUES (?, ?, ?, ?)",
                                [(session, *(without_surrogates(x) for x in row)) for row in rows])


def without_surrogates(value):
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


# -- history_request


def answer(history, content):
    """The list of a history_reply. This session is number 0."""
    raw = bool(content.get("raw", True))
    kind = content.get("hist_access_type")
    inputs = history.input_hist_raw if raw else history.input_hist_parsed
    items = [(0, n, text) for n, text in enumerate(inputs) if n > 0]
    if kind == "range":
        items = _range(history, items, content, raw)
    elif kind == "search":
        items = _search(history, items, content, raw)
    else:
        n = _number(content.get("n"), TAIL)
        missing = n - len(items)
        items = (history.earlier(raw, limit=missing) if missing > 0 else []) + items[-n:] if n > 0 else []
    if content.get("output"):
        outputs = history.output_hist_reprs
        items = [(s, n, (text, None if s else outputs.get(n))) for s, n, text in items]
    return items


def _number(value, absent):
    return absent if value is None else int(value)


def _range(history, items, content, raw):
    session = _number(content.get("session"), 0)
    start = int(content.get("start") or 1)
    stop = content.get("stop")
    if session and session != history.session_number:
        return history.earlier_session(session, start, stop, raw)
    return [i for i in items if i[1] >= start and (stop is None or i[1] < int(stop))]


def _search(history, items, content, raw):
    glob = content.get("pattern") or "*"
    parts = {"*": ".*", "?": "."}
    pattern = re.compile("".join(parts.get(ch, re.escape(ch)) for ch in glob) + r"\Z", re.DOTALL)
    texts = history.input_hist_raw
    items = history.earlier(raw, glob) + [i for i in items if pattern.match(texts[i[1]])]
    if content.get("unique"):
        # The latest of each, at its place.
        items = list({i[2]: i for i in reversed(items)}.values())[::-1]
    n = content.get("n")
    if n is None:
        return items
    return items[-int(n):] if int(n) > 0 else []
