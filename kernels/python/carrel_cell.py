"""Cells of plain Python, run without IPython's detours.

Most cells hold no magic. IPython still passes each through two tokenizers and
a dozen checkers, compiles it three times and stores it through validating
traits, which takes longer than the cell itself. This module runs what needs
none of that and declines everything else, so that IPython's own way stays the
meaning of a cell: the two differ in nothing a cell can see.
"""

import ast
import re

from IPython.core.autocall import IPyAutocall
from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult
from IPython.core.macro import Macro

# What IPython would strip from a cell that is valid Python without it: blank
# space before the first line, and copied prompts.
STRIPPED = re.compile(r"\s|[^\n]*In \[|[^\n]*\n\s*\.\.\.")
# No Python begins so; IPython's own commands do.
COMMANDS = frozenset("%!?/,;")
FIRST_NAME = re.compile(r"[^\W\d]\w*")
# One line that can hold neither a block nor a second statement: its tree need
# not be looked at for an expression at its end.
SIMPLE = re.compile(r"[^\n:;\\]+\n\Z")


class Runner:
    def __init__(self, shell):
        self.shell = shell
        self.transforms = self._transforms()

    def _transforms(self):
        """Everything that may rewrite a cell: whoever adds to it gets IPython's own way."""
        inputs = self.shell.input_transformer_manager
        prefilter = self.shell.prefilter_manager
        return [
            *inputs.cleanup_transforms,
            *inputs.line_transforms,
            *inputs.token_transformers,
            *prefilter.checkers,
            *prefilter.transformers,
            *self.shell.input_transformers_post,
        ]

    def _is_command(self, cell):
        """A line such as `ls` or `exit`: Python to the parser, a command to IPython."""
        name = FIRST_NAME.match(cell)
        if not name:
            return False
        name = name[0]
        value = self.shell.user_ns.get(name)
        if value is not None:
            return isinstance(value, (Macro, IPyAutocall))
        return self.shell.find_magic(name) is not None

    def _is_plain(self, cell):
        if not cell or cell[0] in COMMANDS or STRIPPED.match(cell) or "paste" in cell:
            return False
        if "\n" not in cell[:-1] and self._is_command(cell):
            return False
        shell = self.shell
        return (
            not shell.autocall
            and not shell.ast_transformers
            and shell.ast_node_interactivity == "last_expr"
            and not shell.logger.log_active
            and self._transforms() == self.transforms
        )

    def _compile(self, cell, name):
        """The code objects of a cell: its statements, and an expression that ends it."""
        compiler = self.shell.compile
        if SIMPLE.match(cell):
            return [compiler(cell, name, "single")]
        body = compile(cell, name, "exec", compiler.flags | ast.PyCF_ONLY_AST, True).body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        codes = [compiler(ast.Module(body, []), name, "exec")] if body else []
        if last:
            codes.append(compiler(ast.Interactive([last]), name, "single"))
        return codes

    def prepare(self, raw_cell, count):
        """The code objects of a plain cell, or None: IPython has to look at it."""
        if not self._is_plain(raw_cell):
            return None
        cell = raw_cell if raw_cell.endswith("\n") else raw_cell + "\n"
        try:
            name = self.shell.compile.cache(cell, count, raw_code=raw_cell)
            return self._compile(cell, name)
        except Exception:
            # A mistake, whose message IPython words, or an await.
            return None

    def run(self, codes, raw_cell, store):
        """Run what prepare() gave, with everything IPython does around a cell."""
        shell = self.shell
        info = ExecutionInfo(raw_cell, store, False, True, None)
        result = ExecutionResult(info)
        try:
            self._run(codes, info, result)
        except BaseException as e:
            result.error_in_exec = e
            shell.showtraceback(running_compiled_code=True)
        return result

    def _run(self, codes, info, result):
        shell = self.shell
        count = shell.execution_count
        if info.store_history:
            result.execution_count = count
        shell.events.trigger("pre_execute")
        shell.events.trigger("pre_run_cell", info)
        if info.store_history:
            shell.history_manager.store_inputs(count, info.raw_cell)
        with shell.builtin_trap, shell.display_trap:
            shell.displayhook.exec_result = result
            shell.last_execution_succeeded = self._run_codes(codes, result)
            shell.last_execution_result = result
            shell.displayhook.exec_result = None
        if info.store_history:
            shell.history_manager.store_output(shell.execution_count)
            shell.execution_count += 1

    def _run_codes(self, codes, result):
        for code in codes:
            try:
                self.shell.run_code(code, result).send(None)
            except StopIteration as done:
                if done.value:
                    return False
        return True
