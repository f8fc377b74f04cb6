"""Real data for tests: a CSV file of Debian's package python3-vega-datasets, which stands in the image python."""
import os
import subprocess

from appliance import skip
from images import newest_image

SEATTLE = "/usr/lib/python3/dist-packages/vega_datasets/_data/seattle-weather.csv"


def seattle_weather():
    """-> bytes of seattle-weather.csv: date,precipitation,temp_max,temp_min,wind,weather; 1,461 days."""
    image = os.environ.get("CARREL_IMAGE") or newest_image()
    if not image:
        skip("there is no image python yet: make image makes one")
    csv = subprocess.run(["debugfs", "-R", "cat " + SEATTLE, os.path.join(image, "rootfs.ext4")], capture_output=True, check=True).stdout
    assert csv.startswith(b"date,"), f"{image} has no {SEATTLE}"
    return csv
