"""Sphinx: `sphinx-build -W docs site` makes the site, with warnings as errors."""

import os
import shutil
import sys
from importlib.metadata import version as installed
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
# a page has to stand below this folder; the notebooks' own is a part of the project's layout
shutil.copytree(HERE.parent / "notebooks", HERE / "notebooks", dirs_exist_ok=True)

project = "jaxpriv"
author = "the founders of jaxpriv"
version = release = installed("jaxpriv")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "docstrings",
]
exclude_patterns = ["_build"]
html_theme = "sphinx_book_theme"
html_title = "jaxpriv"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_theme_options = {"show_toc_level": 2, "use_download_button": False,
                      "navbar_persistent": []}

# notebooks and doctests are run by CI's tests: pages show what was stored
nb_execution_mode = "off"
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

default_role = "py:obj"  # `jaxpriv.compose` is a link, `alpha` is code
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings give shapes, units and ranges

autodoc_mock_imports = ["opacus", "flwr"]  # PyTorch and Ray, of which only names are needed

if "INTERSPHINX" in os.environ:  # links into other projects' sites, which takes a network
    extensions.append("sphinx.ext.intersphinx")
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "numpy": ("https://numpy.org/doc/stable", None),
    "jax": ("https://docs.jax.dev/en/latest", None),
    "flax": ("https://flax.readthedocs.io/en/latest", None),
    "optax": ("https://optax.readthedocs.io/en/latest", None),
}
