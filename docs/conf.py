"""Settings of the documentation build."""

import importlib.metadata
from typing import Any

project = "sk_quadratic"
author = "the sk_quadratic developers"
copyright = f"2026, {author}"
version = release = importlib.metadata.version("sk-quadratic")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
suppress_warnings = ["config.cache"]  # the gallery's settings hold a function
templates_path = ["_templates"]

autosummary_generate = True
numpydoc_show_class_members = False
autodoc_typehints = "none"  # the docstrings give types with their shapes

sphinx_gallery_conf: dict[str, Any] = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "image_scrapers": ("matplotlib",),
    "show_memory": False,
    "min_reported_time": 0,
    "abort_on_example_error": True,
    "doc_module": ("sk_quadratic",),
    "backreferences_dir": None,
}

html_theme = "pydata_sphinx_theme"
html_title = "sk_quadratic"
html_theme_options = {
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
}
html_show_sourcelink = False
