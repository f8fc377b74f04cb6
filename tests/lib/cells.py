"""Cells whose meaning lies between Python and IPython: the kernel runs most of
them its own quick way, and must do just what IPython does."""

# With a transformer, even one that changes nothing, every cell goes IPython's own way.
SHORT_WAY = "import ast"
LONG_WAY = "import ast; get_ipython().ast_transformers.append(ast.NodeTransformer())"

# \n stands for the end of a line.
CELLS = r"""
1 + 1
x = 5
x; x + 1
x;
'text: %s' % x
def f(): return 1
for i in range(3): i
print(1); 2
  x
\n\nx
>>> x + 1
In [3]: x + 2
x\n...: 1
x = 1\n...
ls -d /
pwd
exit
%matplotlib --list
!echo hi
x?
who_ls
_ + 1
_i
_ii, _1
In[2:5], len(Out)
get_ipython().execution_count
1/0
1 +
return 1
x = 2\nreturn x
await __import__("asyncio").sleep(0)
import asyncio; await asyncio.sleep(0, 7)
"doc"\nx
__doc__
raise SystemExit
'\u00e9\u4f60'
float(3), True, None, b'1', 1j, {'a': [1]}
True
'it'
_ = 3
_
4
_
class C:\n    __repr__ = lambda self: 'c'\n    def _repr_html_(self): return '<b>c</b>'\nC()
C() # comment
get_ipython().display_formatter.formatters['text/html'].for_type(int, str) and None
5
%precision 2
3.14159
get_ipython().events.register('pre_run_cell', lambda info: print('before', info.raw_cell)) or 1
6
get_ipython().input_transformers_cleanup.append(lambda lines: [l.replace('seven', '7') for l in lines])
seven
get_ipython().last_execution_result.result
from __future__ import annotations
def g(a: nothing): pass\ng.__annotations__
sorted(n for n in get_ipython().user_ns_hidden if n.startswith('_i'))[:5]
""".strip("\n").split("\n")
CELLS = [cell.replace(r"\n", "\n") for cell in CELLS]


def _run(k, cell):
    r = k.run(cell)
    reply = {n: r.reply.get(n) for n in ("status", "execution_count", "ename", "evalue", "payload")}
    shown = [(m.type, m.content) for m in r.outputs if m.type != "stream"]
    return cell, reply, r.text("stdout"), r.text("stderr"), shown


def compare(quick, slow):
    """Two fresh kernels: what a cell prints, shows, raises and leaves is the same."""
    assert _run(quick, SHORT_WAY)[1] == _run(slow, LONG_WAY)[1]
    for cell in CELLS:
        one, other = _run(quick, cell), _run(slow, cell)
        assert one == other, f"{one}\n{other}"
