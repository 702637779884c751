"""Settings of the documentation: `make docs` builds it strictly, offline, into build/docs.

_ext/mathml       mathematics as MathML, made at build time: no script, no font from elsewhere
_ext/ledger       ledger/*.md, written from lazyrich.papers and from what `make claims` measured
_ext/paper_pages  papers/*.md, the READMEs of the papers' rooms
_ext/reference    reference/*.md, written from the public names and their docstrings
_ext/lessons      notebooks/*.ipynb, the lessons to take away
_ext/first_page   story.html, a story of the explorer in one file, which the first page shows
_ext/architecture generated/*, the picture and the table of rooms, from the import graph
"""

import logging
import os
import sys
import tempfile
from pathlib import Path

import lazyrich

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "lazyrich"
author = "The lazyrich authors"
copyright = "The lazyrich authors, MIT licence"
version = release = lazyrich.__version__

extensions = ["myst_nb", "sphinx_copybutton", "sphinx_design"]
extensions += ["mathml", "ledger", "paper_pages", "reference", "architecture", "lessons", "first_page"]
exclude_patterns = ["examples", "generated"]

# Strict: every reference must lead somewhere; only what signatures mention of other packages is not ours to document.
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!lazyrich\.).*")]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

nb_execution_mode = "force"  # a cache would not notice that the library has changed
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_execution_timeout = 120
nb_merge_streams = True

# Notebooks run as for a user without settings of IPython, and their kernels speak of errors alone.
_ipython = tempfile.TemporaryDirectory()
os.environ["IPYTHONDIR"] = _ipython.name
(Path(_ipython.name) / "profile_default").mkdir()
(Path(_ipython.name) / "profile_default" / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 'ERROR'\n")
logging.getLogger("traitlets").setLevel(logging.WARNING)

python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
add_module_names = False

toc_object_entries_show_parents = "hide"
smartquotes = False  # docstrings mean the characters they have

html_theme = "furo"
html_title = "lazyrich"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
