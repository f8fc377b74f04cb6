#include "warmup.h"

#include "jupyter.h"

/* In a function, so that no name is left; whatever a template lacks is passed over. */
static const char cell[] =
	"def _carrel_warmup():\n"
	"    import sys\n"
	"    from IPython.display import display\n"
	"    print('warm')\n"
	"    print('warm', file=sys.stderr)\n"
	"    try:\n"
	"        import pandas as pd\n"
	"        frame = pd.DataFrame({'a': [1, 2, 3], 'b': [1.5, 2.5, 3.5], 'c': list('xyx')})\n"
	"        display(frame)\n"
	"        display(frame.groupby('c').mean(numeric_only=True))\n"
	"        import matplotlib.pyplot as plt\n"
	"        figure, axes = plt.subplots()\n"
	"        axes.plot([1, 2, 3], [3, 1, 2])\n"
	"        axes.set_title('warm')\n"
	"        display(figure)\n"
	"        plt.close(figure)\n"
	"    except ImportError:\n"
	"        pass\n"
	"    shell = get_ipython()\n"
	"    shell.run_line_magic('time', '1 + 1')\n"
	"    shell.system('true')\n"
	"try:\n"
	"    _carrel_warmup()\n"
	"finally:\n"
	"    del _carrel_warmup\n";

json_t *warmup_request(unsigned n, const char **ret_type)
{
	switch (n) {
	case 0:
		*ret_type = "execute_request";
		return jupyter_execute_content(cell, true);
	case 1:
		*ret_type = "execute_request";
		return jupyter_execute_content("1 / 0", true);
	case 2:
		*ret_type = "complete_request";
		return json_pack("{s:s,s:i}", "code", "import os\nos.pa", "cursor_pos", 15);
	default:
		*ret_type = "inspect_request";
		return json_pack("{s:s,s:i,s:i}", "code", "print", "cursor_pos", 5, "detail_level", 0);
	}
}
