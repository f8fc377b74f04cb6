"""A notebook's kernel, as Debian's jupyter_client starts it by the kernelspec carrel-python."""
import os

from appliance import skip

try:
    from jupyter_client.manager import start_new_kernel
except ImportError:
    skip("Debian's python3-jupyter-client is not installed")

REPLY_S = 60


class Notebook:
    """A kernel of the kernelspec carrel-python, in a folder of its own."""

    def __init__(self, folder, **env):
        self.folder = folder
        self.km, self.kc = start_new_kernel(kernel_name="carrel-python", startup_timeout=REPLY_S, cwd=folder,
                                            env={**os.environ, **env})

    def run(self, code, **kw):
        """-> (reply's content, [(msg_type, content)])"""
        out = []
        reply = self.kc.execute_interactive(code, timeout=REPLY_S, output_hook=lambda m: out.append(
            (m["msg_type"], m["content"])), **kw)
        return reply["content"], out

    def text(self, code, **kw):
        reply, out = self.run(code, **kw)
        assert reply["status"] == "ok", reply
        return "".join(c["text"] for t, c in out if t == "stream" and c["name"] == "stdout")

    def end(self):
        self.km.shutdown_kernel()
        self.kc.stop_channels()
        assert not self.km.is_alive()
