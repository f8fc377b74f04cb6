"""get_ipython().kernel: what libraries ask of a kernel they run in."""

import json
import logging

import _carrel
import carrel_comm

CHANNELS = ("shell", "control")


class Idents(dict):
    """{channel: [identity of the client whose request came last]}"""

    def __missing__(self, channel):
        if channel == "control":
            return [_carrel.control_request()[1]]
        request = _carrel.request()
        return [request[1]] if request else [b""]


class Facade:
    def __init__(self, shell):
        self.shell = shell
        self.comm_manager = carrel_comm.manager
        carrel_comm.manager.kernel = self
        self.log = logging.getLogger("carrel")
        self._parent_ident = Idents()

    def get_parent(self, channel=None):
        """The message that is served, as far as it is known: its header and its metadata."""
        metadata = "{}"
        if channel == "control":
            header = _carrel.control_request()[0]
        else:
            header = _carrel.parent()
            request = _carrel.request()
            metadata = request[0] if request else "{}"
        header = json.loads(header)
        return {
            "header": header,
            "msg_id": header.get("msg_id", ""),
            "msg_type": header.get("msg_type", ""),
            "parent_header": {},
            "metadata": json.loads(metadata),
            "content": self.shell.cell.content,
            "buffers": [],
        }

    def set_parent(self, ident, parent, channel="shell"):
        self.shell.set_parent(parent)

    @property
    def _parent_header(self):
        return self.get_parent()
