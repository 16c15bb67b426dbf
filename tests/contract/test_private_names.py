"""What begins with an underscore is its folder's own affair: modules, and names that are imported from one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import armillary

PACKAGE = Path(armillary.__file__).parent
EVERYWHERE = {"armillary._typing"}  # aliases of types: the lowest room


def faults(source, folder):
    """The private names that a file of `folder` (armillary.plots, say) takes from other folders."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "armillary":
            taken = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            taken = [alias.name for alias in node.names if alias.name.split(".")[0] == "armillary"]
        else:
            continue
        found += [name for name in taken if is_private(name) and not name.startswith(folder + ".")]
    return found


def is_private(name):
    parts = name.split(".")
    is_hidden = any(part.startswith("_") and not part.startswith("__") for part in parts)
    return is_hidden and ".".join(parts[:2]) not in EVERYWHERE


def test_no_file_takes_a_private_name_from_another_folder():
    told = {}
    for path in PACKAGE.rglob("*.py"):
        folder = ".".join(("armillary", *path.relative_to(PACKAGE).parts[:-1]))
        if found := faults(path.read_text(), folder):
            told[str(path.relative_to(PACKAGE))] = found
    assert told == {}


@pytest.mark.parametrize(
    ("line", "is_fault"),
    [
        ("from armillary.models.links._link_graph import LinkGraph", True),
        ("from armillary.models.links import _link_graph", True),
        ("import armillary.models.links._link_graph", True),
        ("from armillary.plots.sphere import _figure", False),
        ("from armillary._typing import FloatArray", False),
        ("from armillary.models.links.links import Links", False),
        ("from __future__ import annotations", False),
    ],
)
def test_the_rule_sees(line, is_fault):
    assert bool(faults(line, "armillary.plots")) == is_fault
