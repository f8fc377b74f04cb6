"""Public Jupyter clients in a virtual environment of the tests, and kernelspecs for them.

Environments are made once under build/ from tests/clients/NAME-requirements.txt: python,
notebook with more, and xpython.
"""
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REQUIREMENTS = os.path.join(TOP, "tests", "clients", "python-requirements.txt")
DEBIAN = "/usr/bin/python3"
SKIP = 77
# What pip says of a registry that it cannot reach.
AWAY = re.compile(r"Failed to establish|ConnectionError|ConnectTimeout|name resolution|Read timed out|ProxyError|SSLError")


def skip(why):
    print("skipped: " + why)
    sys.exit(SKIP)


def pip(python, *words):
    got = subprocess.run([python, "-m", "pip", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, check=False)
    if got.returncode and AWAY.search(got.stdout):
        skip("the registry of Python packages cannot be reached: " + got.stdout.strip().splitlines()[-1])
    if got.returncode:
        sys.exit(got.stdout)


def newest(name="python"):
    """The interpreter of an environment, made when it is not there yet."""
    wanted, key = os.path.join(os.path.dirname(REQUIREMENTS), name + "-requirements.txt"), b""
    for path in {REQUIREMENTS: None, wanted: None}:
        with open(path, "rb") as f:
            key += f.read()
    key = hashlib.sha256(key).hexdigest()[:16]
    folder = os.path.join(TOP, "build", "clients")
    os.makedirs(folder, exist_ok=True)
    home = os.path.join(folder, "venv-" + key)
    python = os.path.join(home, "bin", "python")
    with open(os.path.join(folder, "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(home + ".made"):
            return python
        shutil.rmtree(home, ignore_errors=True)
        if subprocess.run([DEBIAN, "-m", "venv", home], capture_output=True, check=False).returncode:
            skip("Python's venv is missing (apt-get install python3-venv)")
        pip(python, "install", "-q", "--disable-pip-version-check", "-r", wanted)
        with open(home + ".made", "w", encoding="ascii"):
            return python


def source(python, name):
    """The folder of a package's source archive, of the version the environment has."""
    with open(REQUIREMENTS, encoding="utf-8") as f:
        version = re.search(rf"^{name}==(\S+)$", f.read(), re.M)[1]
    folder = os.path.join(TOP, "build", "clients")
    unpacked = os.path.join(folder, f"{name}-{version}")
    with open(os.path.join(folder, "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(unpacked):
            # The package's own build tool is in the environment: nothing more is fetched.
            pip(python, "download", "-q", "--no-deps", "--no-build-isolation", "--no-binary", name,
                f"{name}=={version}", "-d", folder)
            shutil.unpack_archive(os.path.join(folder, f"{name}-{version}.tar.gz"), folder)
    return unpacked


def native_kernel():
    """build/carrel-python, built for this machine."""
    if not os.access("/usr/bin/python3-config", os.X_OK):
        skip("python3-config is missing (apt-get install python3-dev)")
    for module in ("IPython", "jedi"):
        if subprocess.run([DEBIAN, "-c", f"import {module}"], capture_output=True, check=False).returncode:
            skip(f"Python's {module} is missing on this machine")
    env = dict(os.environ, PATH="/usr/bin:" + os.environ["PATH"])
    os.makedirs(os.path.join(TOP, "build"), exist_ok=True)
    # Several tests run at once.
    with open(os.path.join(TOP, "build", "carrel-python.lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["make", "-s", "build/carrel-python"], cwd=TOP, env=env, check=True, stdout=subprocess.DEVNULL)
    return os.path.join(TOP, "build", "carrel-python")


def native_argv(name):
    """How the kernel of that name is started on this machine; any but carrel-bash is Python's."""
    if name != "carrel-bash":
        return [native_kernel(), "-f", "{connection_file}"]
    subprocess.run(["make", "-s", "build/carrel-bash"], cwd=TOP, check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(TOP, "kernels", "bash", "kernel.json"), encoding="utf-8") as f:
        argv = json.load(f)["argv"]
    return [os.path.join(TOP, "build", "carrel-bash"), *argv[1:]]


def clean_environment(folder, jupyter_path):
    """Variables under which Jupyter's clients see the kernelspecs of one path, and nothing of this machine."""
    # Not what pyenv or an environment of the caller puts in front.
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "PYTHON", "IPYTHON", "VIRTUAL_ENV"))}
    return dict(env, HOME=folder, JUPYTER_PATH=jupyter_path, PATH="/usr/bin:" + env["PATH"],
                JUPYTER_RUNTIME_DIR=os.path.join(folder, "run"), JUPYTER_PLATFORM_DIRS="1",
                PYTHONDONTWRITEBYTECODE="1")


def environment(folder, names=("carrel-python",)):
    """For kernels that run on this machine, by these names."""
    for name in names:
        place = os.path.join(folder, "data", "kernels", name)
        os.makedirs(place)
        language = "bash" if name == "carrel-bash" else "python"
        with open(os.path.join(place, "kernel.json"), "w", encoding="utf-8") as f:
            json.dump({"argv": native_argv(name), "display_name": name, "language": language,
                       "interrupt_mode": "message"}, f)
    return clean_environment(folder, os.path.join(folder, "data"))


def remote_environment(folder, appliance):
    """For carrel-python and carrel-bash as `carrel kernelspec install` makes them, in sandboxes of an appliance."""
    subprocess.run([os.path.join(TOP, "build", "carrel"), "kernelspec", "install", "--prefix", folder], check=True,
                   stdout=subprocess.DEVNULL)
    return dict(clean_environment(folder, os.path.join(folder, "share", "jupyter")), CARREL_TOKEN=appliance.token,
                CARREL_URL=f"http://127.0.0.1:{appliance.port}")


def in_image(folder):
    """How the kernel of this checkout's image is started inside its root, which sees folder, too."""
    chroot = os.path.join(TOP, "kernels", "image", "chroot")
    enter = [chroot, "--bind", f"{folder}:{folder}", "--"]
    if os.getuid() != 0:
        skip("only root enters the image")
    if subprocess.run(enter + ["test", "-x", "/usr/lib/carrel/carrel-python"], capture_output=True, check=False).returncode:
        skip("the image of this checkout is not built yet (make image)")
    return enter + ["/usr/lib/carrel/carrel-python"]
