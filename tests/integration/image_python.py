#!/usr/bin/python3
"""The python template's image as its user finds it: every promised library imports with
its bytecode and its data, plots show Chinese, nothing of the host shows."""
import os
import subprocess
import sys

REPO = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))

INSIDE = r"""
import importlib, os, pathlib, pwd, stat, sys, warnings

user = pwd.getpwnam("user")
assert (os.getuid(), os.getgid()) == (1000, 1000) == (user.pw_uid, user.pw_gid), user
assert user.pw_dir == "/home/user" == os.getcwd() == os.environ["HOME"], os.getcwd()
assert user.pw_shell == "/bin/bash", user
assert "/src" not in open("/proc/mounts").read(), "the host shows through"
for path in ("/etc", "/usr/lib/carrel", "/usr/local/bin"):
    assert not os.access(path, os.W_OK), path + " is writable for the user"
assert os.stat("/etc/machine-id").st_size == 0, "all sandboxes would share a machine id"
assert stat.S_IMODE(os.stat("/tmp").st_mode) == 0o1777

for name in (
    "IPython jedi matplotlib_inline numpy pandas matplotlib.pyplot scipy.stats sklearn.ensemble "
    "seaborn openpyxl PIL.Image requests sympy vega_datasets"
).split():
    module = importlib.import_module(name)
    print(name, getattr(module, "__version__", ""))
print(sys.version)
assert sys.version_info >= (3, 13)
print(sys.flags.no_user_site, sys.prefix)

cold = [
    module.__name__
    for module in list(sys.modules.values())
    if getattr(module, "__file__", None) and module.__file__.startswith("/usr/lib/python3")
    and module.__file__.endswith(".py") and getattr(module, "__cached__", None)
    and not os.path.exists(module.__cached__)
]
assert not cold, f"compiled at every first import: {cold}"

import numpy, pandas, sklearn.datasets, vega_datasets
iris = sklearn.datasets.load_iris(as_frame=True).frame
assert iris.shape == (150, 5)
weather = vega_datasets.data.seattle_weather()
assert len(weather) > 1000
frame = pandas.DataFrame(weather)
frame.to_excel("weather.xlsx")
assert pandas.read_excel("weather.xlsx").shape[0] == len(weather)
assert numpy.allclose(numpy.linalg.inv(numpy.eye(3) * 2), numpy.eye(3) / 2)

from matplotlib import font_manager
version = font_manager.FontManager.__version__
fonts = pathlib.Path.home() / f".cache/matplotlib/fontlist-v{version}.json"
assert fonts.stat().st_uid == 1000, "matplotlib would scan every font at its first plot"
assert "WenQuanYi Micro Hei" in font_manager.get_font_names()

import matplotlib.pyplot as plt
import seaborn

def plot(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure, axes = plt.subplots()
        axes.plot([-1, 1])
        axes.set_title("平均最高气温 −5 °C")
        axes.set_xlabel("月份")
        for kind in ("png", "svg", "pdf"):
            figure.savefig(f"{name}.{kind}")
            assert os.stat(f"{name}.{kind}").st_size > 1000
        plt.close(figure)

plot("plain")
plt.rcParams["font.sans-serif"] = ["SimHei"]
plot("asked-by-name")
plt.rcParams["font.family"] = ["Microsoft YaHei"]
plot("asked-by-family")
seaborn.set_theme()
plot("seaborn")
plt.rcdefaults()
plt.style.use("ggplot")
plot("style")
print("the image is as it should be")
"""


def main():
    if os.geteuid() != 0:
        print("needs root to enter the image")
        return 77
    subprocess.run([os.path.join(REPO, "kernels/image/build"), "python"], stdout=subprocess.DEVNULL, check=True)
    done = subprocess.run(
        [os.path.join(REPO, "kernels/image/chroot"), "--user", "--", "python3", "-c", INSIDE],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600,
    )
    print(done.stdout[-4000:])
    if done.returncode != 0 or not done.stdout.rstrip().endswith("the image is as it should be"):
        return 1
    return leftovers()


def leftovers():
    """Entering the image leaves no mount on the host."""
    mounts = open("/proc/self/mountinfo", encoding="utf-8").read()
    cache = os.environ.get("CARREL_CACHE", "/var/cache/carrel")
    if f" {cache}/enter" in mounts:
        print("a mount was left behind")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
