"""Results and displays as messages."""

import builtins

import _carrel
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.lib.pretty import _repr_pprint as print_repr


PLAIN = frozenset((int, float, bool, complex, str, bytes))


class MessageDisplayHook(DisplayHook):
    """The value of a cell's last expression becomes an execute_result."""

    # Plain attributes: checking their types takes longer than setting them.
    exec_result = None
    known_formatters = None
    known_values = ()

    def quiet(self):
        # The base class tokenizes the whole cell to find a last semicolon; most
        # cells have none.
        cell = self.shell.cell.current_cell
        if ";" not in cell:
            return False
        self.shell.history_manager.input_hist_parsed.append(cell)
        try:
            return super().quiet()
        finally:
            self.shell.history_manager.input_hist_parsed.pop()

    def write_output_prompt(self):
        pass

    def _is_plain(self, kind):
        """A value of this type has only a text, unless somebody registered more."""
        if kind not in PLAIN:
            return False
        formatter = self.shell.display_formatter
        formatters = [*formatter.formatters.values(), formatter.mimebundle_formatter, formatter.ipython_display_formatter]
        if formatters != self.known_formatters:
            text = formatter.formatters.get("text/plain")
            # Where traits keep their values: each read through the trait itself checks again what was set.
            others = [f for f in formatters if f is not text]
            self.known_values = [f._trait_values for f in others if f.type_printers is not None]
            self.known_formatters = formatters
        return not any(kind in values["type_printers"] for values in self.known_values)

    def _plain_text(self, result):
        formatter = self.shell.display_formatter.formatters["text/plain"]
        # The printer of most plain types is repr() behind much machinery.
        if formatter.type_printers.get(type(result)) is print_repr and formatter.pprint:
            return repr(result)
        return formatter(result)

    def compute_format_data(self, result):
        # Asking every formatter takes longer than everything else in `1 + 1`.
        if self._is_plain(type(result)):
            return {"text/plain": self._plain_text(result)}, {}
        # An exception in the value's own __repr__ is shown by IPython and
        # then forgotten; here it makes the cell fail.
        self.shell.cell.displaying_result = True
        try:
            return super().compute_format_data(result)
        finally:
            self.shell.cell.displaying_result = False

    def update_user_ns(self, result):
        ns = self.shell.user_ns
        last = (self._, self.__, self.___)
        names = ("_", "__", "___")
        if (
            "_" in vars(builtins)
            or any(ns.get(name) is not value for name, value in zip(names, last))
            or not len(ns["_oh"]) < self.cache_size
            or result is ns["_oh"]
        ):
            # The user took one of the names, or old results have to go.
            return super().update_user_ns(result)
        self._, self.__, self.___ = result, self._, self.__
        count = self.shell.execution_count
        new = {"_": result, "__": self.__, "___": self.___, f"_{count}": result}
        ns.update(new)
        self.shell.user_ns_hidden.update(new)
        ns["_oh"][count] = result

    def write_format_data(self, format_dict, md_dict=None):
        content = {
            "execution_count": self.prompt_count,
            "data": format_dict,
            "metadata": md_dict or {},
        }
        if not _carrel.publish("execute_result", content) and _carrel.is_child():
            print(format_dict.get("text/plain", ""))

    def finish_displayhook(self):
        pass


class MessageDisplayPublisher(DisplayPublisher):
    """display() becomes display_data."""

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **kwargs):
        self._validate_data(data, metadata)
        content = {"data": data, "metadata": metadata or {}, "transient": transient or {}}
        kind = "update_display_data" if update else "display_data"
        if not _carrel.publish(kind, content) and _carrel.is_child():
            print(data.get("text/plain", ""))

    def clear_output(self, wait=False):
        _carrel.publish("clear_output", {"wait": bool(wait)})
