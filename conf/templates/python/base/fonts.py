"""Writes matplotlib's list of fonts, with other names for the Chinese one.

Notebooks written elsewhere ask for the Chinese fonts of Windows and macOS by name:
they find the one that is here, instead of a warning for every text.
"""
import dataclasses
import os

import matplotlib
from matplotlib import font_manager

INSTALLED = "WenQuanYi Micro Hei"
OTHER_NAMES = [
    "SimHei",
    "SimSun",
    "Microsoft YaHei",
    "PingFang SC",
    "Heiti TC",
    "STHeiti",
    "Arial Unicode MS",
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans CN",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
]


def main():
    manager = font_manager.fontManager
    entry = next(font for font in manager.ttflist if font.name == INSTALLED)
    present = {font.name for font in manager.ttflist}
    for name in OTHER_NAMES:
        if name not in present:
            manager.ttflist.append(dataclasses.replace(entry, name=name))
    version = font_manager.FontManager.__version__
    path = os.path.join(matplotlib.get_cachedir(), f"fontlist-v{version}.json")
    font_manager.json_dump(manager, path)


main()
