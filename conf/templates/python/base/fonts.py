"""Writes matplotlib's list of fonts, with other names for the Chinese one.

Notebooks written elsewhere ask for the Chinese fonts of Windows and macOS by name,
and seaborn's themes replace the fallback list by one of Latin fonts: under these
names they find the Chinese font that is here, instead of empty boxes.
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
    # The last of seaborn's and the styles' sans-serif lists, after DejaVu Sans,
    # which holds every letter that the real one had.
    "Bitstream Vera Sans",
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
