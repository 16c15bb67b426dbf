"""How Sphinx builds the site; `make docs` runs it with warnings as errors."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "building"))

import result_tables  # noqa: E402
import root_pages  # noqa: E402
from docutils import nodes  # noqa: E402
from sphinx import addnodes  # noqa: E402

import armillary  # noqa: E402

project = "Armillary"
author = "The Armillary developers"
copyright = "The Armillary developers. BSD-3-Clause"
version = release = armillary.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_generated", "building", "gallery/*.ipynb", "gallery/*.py", "gallery/*.zip"]
templates_path = ["_templates"]
# ref.python: attributes of one name in two classes, where numpydoc looks for the name alone
suppress_warnings = ["ref.python", "config.cache"]  # the gallery's settings hold a function

# Pages are read on the site and in the repository: anchors are those of GitHub.
myst_enable_extensions = ["colon_fence", "deflist", "attrs_block"]
myst_heading_anchors = 4

# Docstrings: names in back quotes become links where there is a page for them.
default_role = "py:obj"
autosummary_generate = True
autosummary_imported_members = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "backreferences_dir": "gallery/used_by",
    "doc_module": ("armillary",),
    "image_scrapers": ("gallery_figures", "matplotlib"),  # in this order: the second closes what it knows
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "write_computation_times": False,
    "plot_gallery": "True",
}

html_theme = "pydata_sphinx_theme"
html_title = f"Armillary {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "Armillary"},
    "navigation_depth": 3,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
_WITHOUT_SIDEBAR = ("index", "start", "install", "choose", "faq", "migration", "tasks", "benchmarks", "cite")
html_sidebars = {page: [] for page in _WITHOUT_SIDEBAR}

_LINKED = frozenset(armillary.__all__) - {"load", "save"}  # words that are common in sentences

# Bars, stars, and underlines at the end of a word; lines that name parameters are numpydoc's.
_MARKUP = re.compile(r"([|*]|(?<=\w)_(?!\w))")
_ESCAPE = r"\\\1"
_NAMES = re.compile(r"\s*\w+(, \w+)*( : .*)?$")

# What scikit-learn adds to every estimator and describes on its own site.
_OF_SCIKIT_LEARN = re.compile(r"set_\w+_request|get_metadata_routing|set_output")


@functools.cache
def _named(path: str) -> Any:
    """What a dotted name stands for, or None."""
    for cut in range(path.count(".") + 1):
        module, *rest = path.rsplit(".", cut)
        with contextlib.suppress(ImportError, AttributeError, ValueError):
            return functools.reduce(getattr, rest, importlib.import_module(module))
    return None


@functools.cache
def _fields(owner: Any) -> dict[str, tuple[str, str]]:
    """Kind and comment of each field of a record, from the lines that declare them."""
    is_record = isinstance(owner, type) and (dataclasses.is_dataclass(owner) or hasattr(owner, "_fields"))
    if not is_record or not owner.__module__.startswith("armillary"):
        return {}
    declared = re.findall(
        r"^    ([a-z]\w*): ([^#=\n]+?)(?: = [^#\n]*)?(?:  # (.+))?$", inspect.getsource(owner), re.MULTILINE
    )
    return {name: (kind, comment) for name, kind, comment in declared}


def _is_left_out(app: Any, what: str, name: str, found: Any, skip: bool, options: Any) -> bool | None:
    """What is told on another site, or above in the list of attributes."""
    owner = _named(app.env.docname.rpartition("/")[2])
    told = (inspect.getdoc(owner) or "").partition("Attributes\n----------\n")[2] if isinstance(owner, type) else ""
    is_told = not callable(found) and re.search(rf"^(\w+, )*{name}(, \w+)* : ", told, flags=re.MULTILINE)
    return True if is_told or name in _fields(owner) or _OF_SCIKIT_LEARN.fullmatch(name) else None


def _with_fields(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Records whose fields have comments get a list of attributes."""
    fields = _fields(found) if what in ("class", "exception") else {}
    if fields and "Attributes" not in lines:
        lines += ["", "Attributes", "----------"]
        for field, (kind, comment) in fields.items():
            lines += [f"{field} : {kind}", f"    {comment[:1].upper()}{comment[1:]}{'.' if comment else ''}"]


def _as_plain_text(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Our docstrings are plain text with names in back quotes: |r| and x_i* are formulas, no markup."""
    if (getattr(found, "__module__", None) or "").startswith("armillary"):
        lines[:] = [_escaped(line) for line in lines]


def _escaped(line: str) -> str:
    if line.lstrip().startswith((">>>", "...", "*")):
        return line
    if _NAMES.match(line):
        names, colon, kind = line.partition(" : ")
        return f"{names}{colon}{_MARKUP.sub(_ESCAPE, kind)}"
    pieces = re.split(r"(`[^`]*`)", line)
    return "".join(piece if piece.startswith("`") else _MARKUP.sub(_ESCAPE, piece) for piece in pieces)


def _with_links(app: Any, doctree: nodes.document) -> None:
    """Names of `armillary` that a page has in back quotes lead to their pages."""
    for literal in list(doctree.findall(nodes.literal)):
        name = literal.astext()
        is_apart = isinstance(literal.parent, nodes.reference | nodes.title | addnodes.pending_xref)
        if name not in _LINKED or is_apart:
            continue
        target = {"refdomain": "py", "reftype": "obj", "reftarget": f"armillary.{name}", "refwarn": False}
        literal.replace_self(addnodes.pending_xref("", literal.deepcopy(), refdoc=app.env.docname, **target))


def setup(app: Any) -> None:
    """Tables of the benchmarks, and files of the repository that are pages here, are made anew with each build."""
    result_tables.write(HERE / "_generated")
    root_pages.write(HERE / "_generated")
    app.connect("doctree-read", _with_links)
    app.connect("autodoc-skip-member", _is_left_out)
    app.connect("autodoc-process-docstring", _with_fields, priority=300)
    app.connect("autodoc-process-docstring", _as_plain_text, priority=400)
