"""How Sphinx builds the documentation; run by ``make docs``."""

import sys
import warnings
from pathlib import Path

import calibrant

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "calibrant"
author = "The calibrant developers"
project_copyright = author
version = release = calibrant.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.bibtex",
    "decision_chart",
    "mathml",
    "method_cards",
    "method_tables",
    "paper_pages",
    "public_names",
]
# The gallery writes its scripts and headings beside its pages.
exclude_patterns = ["_build", "**/GALLERY_HEADER.rst"]
nitpicky = True
# Types are described in words, and the classes of other projects are names only, since their
# inventories would have to be fetched from the network. All other references must lead somewhere.
nitpick_ignore_regex = [("py:(class|exc)", r"(?!calibrant\b).*")]

myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_default_options = {
    # scikit-learn adds two of these to every class that has a fit; the table has the names.
    "exclude-members": ", ".join(
        ["registry_names"]
        + [
            f"set_{method}_request"
            for method in (
                "fit",
                "partial_fit",
                "predict",
                "predict_proba",
                "score",
                "transform",
            )
        ]
    ),
}
autoclass_content = "class"
autosummary_generate = False
add_module_names = False
napoleon_google_docstring = False
# By default the underscore at the end of a fitted attribute would be taken for markup.
napoleon_custom_sections = [("Attributes", "params_style")]
napoleon_use_rtype = False

bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "plain"
bibtex_reference_style = "author_year"

html_theme = "furo"
html_title = f"calibrant {release}"
html_static_path = ["_static"]
html_css_files = ["calibrant.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False

# Tutorials and gallery are scripts in examples/, which are run while the site is built. A script that fails or
# warns fails the build.
warnings.simplefilter("error", category=UserWarning)
sphinx_gallery_conf = {
    "examples_dirs": ["../examples/tutorials", "../examples/gallery"],
    "gallery_dirs": ["tutorials", "gallery"],
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "copyfile_regex": r"(?!)",
    "abort_on_example_error": True,
    "capture_repr": (),
    "download_all_examples": False,
    "min_reported_time": 1e9,
    "plot_gallery": "True",
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "thumbnail_size": (400, 320),
}
