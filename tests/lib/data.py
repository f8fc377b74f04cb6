"""Real data for tests: the CSV files of Debian's package python3-vega-datasets."""
import glob
import os
import subprocess
import tempfile

from appliance import skip

PACKAGE = "python3-vega-datasets"


def seattle_weather():
    """-> bytes of seattle-weather.csv: date,precipitation,temp_max,temp_min,wind,weather; 1,461 days."""
    with tempfile.TemporaryDirectory(prefix="carrel-data-") as d:
        got = subprocess.run(["apt-get", "download", "-q", PACKAGE], cwd=d, capture_output=True, text=True)
        if got.returncode:
            skip(f"Debian's package {PACKAGE} cannot be fetched: {got.stderr.strip().splitlines()[-1:]}")
        subprocess.run(["dpkg-deb", "-x", glob.glob(os.path.join(d, "*.deb"))[0], d], check=True)
        [path] = glob.glob(os.path.join(d, "usr/lib/python3/dist-packages/*/_data/seattle-weather.csv"))
        with open(path, "rb") as f:
            return f.read()
