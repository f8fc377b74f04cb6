"""Tracebacks as IPython shows them, in a fraction of the time.

IPython parses each file that a frame stands in and passes each function through
a lexer of regular expressions: a tenth of a second for an error inside a
library, and seconds on an emulated processor. Here a library's frame shows its
lines as they are in the file, only the user's own code is parsed, to mark the
expression that failed, and Python's own tokenizer finds what to colour.
"""

import io
import keyword
import linecache
import sysconfig
import textwrap
import tokenize

import stack_data.core
from IPython.core import ultratb
from pygments.formatters.terminal256 import Terminal256Formatter
from pygments.styles import get_style_by_name
from pygments.token import Token
from stack_data.utils import collapse_repeated, frame_and_lineno, iter_stack

LIBRARY_FOLDERS = ("/dist-packages/", "/site-packages/")
STANDARD_LIBRARY = (sysconfig.get_path("stdlib") + "/", "<frozen ")

KINDS = {
    tokenize.NUMBER: Token.Literal.Number,
    tokenize.STRING: Token.Literal.String,
    tokenize.COMMENT: Token.Comment,
    tokenize.OP: Token.Operator,
    **{
        getattr(tokenize, name): Token.Literal.String
        for name in ("FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END")
        if hasattr(tokenize, name)
    },
}
NAMES = {
    **dict.fromkeys(keyword.kwlist, Token.Keyword),
    **dict.fromkeys(("None", "True", "False"), Token.Keyword.Constant),
    **dict.fromkeys(("from", "import"), Token.Keyword.Namespace),
    **dict.fromkeys(("and", "in", "is", "not", "or"), Token.Operator.Word),
}
NAMES_AFTER = {"def": Token.Name.Function, "class": Token.Name.Class}


def is_library(filename):
    return filename.startswith(STANDARD_LIBRARY) or any(folder in filename for folder in LIBRARY_FOLDERS)


# ---- colours


def _tokens(lines):
    """(line, start, end, kind) of what has a colour; ends where the text is no Python."""
    before = ""
    try:
        for t in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
            kind = KINDS.get(t.type)
            if t.type == tokenize.NAME:
                kind = NAMES_AFTER.get(before) or NAMES.get(t.string, Token.Name)
                before = t.string
            if kind is None:
                continue
            for row in range(t.start[0], t.end[0] + 1):
                start = t.start[1] if row == t.start[0] else 0
                end = t.end[1] if row == t.end[0] else len(lines[row - 1])
                yield row - 1, start, end, kind
    except (tokenize.TokenError, SyntaxError):
        return


def _escapes(formatter, kind):
    styles = formatter.style_string
    while kind:
        found = styles.get(str(kind))
        if found:
            return found
        kind = kind.parent
    return "", ""


def colored(formatter, code, ranges=()):
    """The lines of code with the formatter's colours; ranges of offsets are marked."""
    lines = code.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    out, done = [""] * len(lines), [0] * len(lines)
    for row, start, end, kind in _tokens(lines):
        if any(a <= starts[row] + start < b for a, b in ranges):
            kind = kind.ExecutingNode
        on, off = _escapes(formatter, kind)
        out[row] += f"{lines[row][done[row]:start]}{on}{lines[row][start:end]}{off}"
        done[row] = end
    return [text + line[at:] for text, line, at in zip(out, lines, done)]


# ---- frames


class LibraryLine:
    def __init__(self, lineno, text, is_current, formatter):
        self.lineno = lineno
        self.text = text
        self.is_current = is_current
        self.formatter = formatter

    def render(self, *, pygmented):
        return colored(self.formatter, self.text)[0] if pygmented else self.text


class LibraryFrame:
    """As much of a stack_data.FrameInfo as IPython asks for, without a syntax tree."""

    variables_in_executing_piece = ()

    def __init__(self, tb, options):
        self.frame, lineno = frame_and_lineno(tb)
        self.code = self.frame.f_code
        # Code that a compiler's pass made may have no line.
        self.lineno = lineno or self.code.co_firstlineno
        self.filename = self.code.co_filename
        self.options = options
        self.executing = self

    def code_qualname(self):
        return getattr(self.code, "co_qualname", self.code.co_name)

    @property
    def lines(self):
        first = max(self.lineno - self.options.before, self.code.co_firstlineno, 1)
        last = self.lineno + self.options.after
        file = linecache.getlines(self.filename, self.frame.f_globals)
        text = textwrap.dedent("".join(file[first - 1:last])).splitlines()
        formatter = self.options.pygments_formatter
        return [LibraryLine(n, line, n == self.lineno, formatter) for n, line in enumerate(text, first)]


def _frame(tb, options):
    kind = LibraryFrame if is_library(tb.tb_frame.f_code.co_filename) else stack_data.FrameInfo
    return kind(tb, options)


def _same(tb):
    return tb.tb_frame.f_code, tb.tb_lineno


def _record(frame):
    # IPython 8.5 and older take stack_data's own frames.
    own = getattr(ultratb, "FrameInfo", None)
    return own._from_stack_data_FrameInfo(frame) if own else frame


class Traceback(ultratb.AutoFormattedTB):
    formatter = None

    def _formatter(self):
        if not self.has_colors:
            return None
        # Settings of IPython 8.8 and newer.
        wanted = (getattr(self, "tb_highlight_style", "default"), getattr(self, "tb_highlight", "bg:ansiyellow"))
        if self.formatter is None or self.formatter[0] != wanted:
            style = stack_data.style_with_executing_node(get_style_by_name(wanted[0]), wanted[1])
            self.formatter = (wanted, Terminal256Formatter(style=style))
        return self.formatter[1]

    def get_records(self, etb, number_of_lines_of_context, tb_offset):
        if self.include_vars:
            return super().get_records(etb, number_of_lines_of_context, tb_offset)
        context = number_of_lines_of_context - 1
        options = stack_data.Options(
            before=context - context // 2, after=context // 2, pygments_formatter=self._formatter()
        )
        records = collapse_repeated(
            list(iter_stack(etb)),
            mapper=lambda tb: _frame(tb, options),
            collapser=stack_data.RepeatedFrames,
            key=_same,
        )
        return [_record(r) for r in list(records)[tb_offset:]]


def install(shell):
    shell.InteractiveTB = Traceback(
        mode=shell.InteractiveTB.mode,
        color_scheme=shell.colors,
        tb_offset=1,
        debugger_cls=shell.debugger_cls,
        parent=shell,
    )
    stack_data.core._pygmented_with_ranges = colored
