"""The guest images of the cache."""
import glob
import json
import os

CACHE = os.environ.get("CARREL_CACHE", "/var/cache/carrel")


def newest_image(template="python"):
    """-> directory of that template's newest image, or None"""
    found = sorted(glob.glob(os.path.join(CACHE, "images", "*", "manifest.json")), key=os.path.getmtime, reverse=True)
    for path in found:
        with open(path, encoding="utf-8") as f:
            if json.load(f)["template"] == template:
                return os.path.dirname(path)
    return None
