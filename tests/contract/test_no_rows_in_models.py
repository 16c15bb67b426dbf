"""A model file never touches an array with N rows: labels, columns and rows are behind the seam (engines/contract.py).

Read from the text of the files: what makes an array as long as the rows, or takes one apart, is named here.
"""

import ast
from pathlib import Path

import pytest
from tests.making import each

import armillary

ROOT = Path(armillary.__file__).parent
# Host only: they work on rows in memory by name (engines/host.py), or draw new rows.
HOST_ONLY = {
    "models/links/links.py",
    "models/links/_link_graph.py",
}
FITTING = [
    "assignment",
    "balance",
    "batches",
    "consolidation",
    "dirichlet_process",
    "divisions",
    "expectation",
    "initialization",
    "loop",
    "optimistic",
    "silhouette",
    "slice_sums",
    "stopping",
]
MAKERS = {"full", "empty", "zeros", "ones", "arange", "repeat", "tile", "broadcast_to"}
TAKERS = {"bincount", "unique", "flatnonzero", "argsort", "asarray"}
# Names that hold something of every row, and attributes of points that do.
OPAQUE = {"labels", "column", "nearest", "own_labels"}
ARRAYS = {"weights", "matrix", "labels_"}
OWNERS = {"points", "counted", "passes"}
# Methods of rows in memory that models must not call.
PRIVATE = {"block", "gather", "take", "counted", "shuffled", "map_scores", "each_block", "kernels", "sums", "soft_sums"}


def files():
    models = [path for path in sorted((ROOT / "models").rglob("*.py")) if str(path.relative_to(ROOT)) not in HOST_ONLY]
    return models + [ROOT / "fitting" / f"{name}.py" for name in FITTING]


def is_row_count(node):
    """`points.n_rows`, `passes.points.n_given`, `len(labels)`."""
    if isinstance(node, ast.Attribute) and node.attr in ("n_rows", "n_given"):
        return True
    is_len = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"
    return is_len and isinstance(node.args[0], ast.Name) and node.args[0].id in OPAQUE


def name_of(node):
    """The last name of `a.b.c`, or of `a`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def faults(tree):
    """(line, what) of everything that touches an array with N rows."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if name_of(node.func) in MAKERS and any(is_row_count(part) for part in ast.walk(node) if part is not node):
                yield node.lineno, f"{name_of(node.func)} of as many numbers as rows"
            if name_of(node.func) in TAKERS and node.args and name_of(node.args[0]) in OPAQUE:
                yield node.lineno, f"{name_of(node.func)} of {name_of(node.args[0])}"
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in OPAQUE:
            yield node.lineno, f"{node.value.id}[...]"
        if isinstance(node, ast.Attribute) and name_of(node.value) in OWNERS and node.attr in ARRAYS | PRIVATE:
            yield node.lineno, f"{name_of(node.value)}.{node.attr}"


@each("path", files())
def test_no_array_of_rows(path):
    found = [f"{path.name}:{line}: {what}" for line, what in faults(ast.parse(path.read_text()))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "labels = np.full(points.n_rows, -1)",
        "x = np.empty((passes.points.n_rows, 3))",
        "y = np.arange(len(labels))",
        "sizes = np.bincount(labels, minlength=3)",
        "labels[rows] = 0",
        "first = labels[0]",
        "w = points.weights",
        "some = passes.points.weights[numbers]",
        "some = points.take(numbers)",
        "block = passes.points.block(0, 5)",
        "passes.kernels.scores(rows)",
    ],
)
def test_what_is_forbidden_is_found(line):
    assert list(faults(ast.parse(line)))


def test_the_files_that_are_excepted_are_there():
    assert all((ROOT / name).exists() for name in HOST_ONLY)
