"""A pytest plug-in: what starts the default kernel starts the one that JUPYTER_PATH names "python3"."""
from jupyter_client.kernelspec import KernelSpecManager

# Otherwise that name always means the ipykernel which is installed beside the client.
KernelSpecManager.ensure_native_kernel = False


def pytest_addoption(parser):
    # Suites ask whether coverage is measured, which skips what is timed.
    parser.addoption("--cov", default=None)
