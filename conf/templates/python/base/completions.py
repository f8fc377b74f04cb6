"""Lets jedi parse what every completion needs, so that its cache is part of the image."""

from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
for code in ("import os\nos.pat", "pri", "import numpy as np\nnp.ara", "import pandas as pd\npd.Data"):
    shell.run_cell(code.split("\n")[0] if "\n" in code else "pass", silent=True)
    with provisionalcompleter():
        assert list(shell.Completer.completions(code, len(code))), code
