"""What notebooks show: tables as HTML, and progress that changes in its place."""

from __future__ import annotations

import sys
import types

import pytest

from armillary import SphericalKMeans, choose_model, select_max_angle, tune_links
from armillary.datasets import make_vmf_mixture
from armillary.fitting import notebook

FIRST_CELL = """from armillary import SphericalKMeans, choose_model, name_clusters
from armillary.datasets import make_vmf_mixture
X, labels, _ = make_vmf_mixture(300, 8, 3, concentration=60.0, min_angle=1.0, random_state=0)"""


@pytest.fixture(scope="module")
def rows():
    X, labels, _ = make_vmf_mixture(200, 8, 3, concentration=60.0, min_angle=1.0, random_state=0)
    SphericalKMeans(3, random_state=0).fit(X)  # a first fit would say that it compiles
    return X, labels


@pytest.fixture
def kernel(monkeypatch):
    """A notebook's kernel, as far as we ask it: what was displayed, and what was changed in its place."""
    shown, changed = [], []

    class Handle:
        def update(self, content, raw):
            changed.append(content)

    def display(content, raw, display_id):
        shown.append(content)
        return Handle()

    shell = types.SimpleNamespace(kernel=object(), execution_count=7)
    module = types.ModuleType("IPython")
    module.get_ipython = lambda: shell
    displays = types.ModuleType("IPython.display")
    displays.display = display
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", displays)
    monkeypatch.setattr(notebook, "_line", None)
    monkeypatch.setattr(notebook, "_SECONDS_BETWEEN", 0.0)
    return types.SimpleNamespace(shown=shown, changed=changed, shell=shell)


def test_all_fits_of_a_cell_share_one_line(kernel, rows, capfd):
    for seed in range(3):
        SphericalKMeans(3, random_state=seed, verbose=1).fit(rows[0])
    assert len(kernel.shown) == 1
    assert len(kernel.changed) >= 3
    assert "<progress" in kernel.shown[0]["text/html"]
    last = kernel.changed[-1]
    assert last["text/plain"].startswith("SphericalKMeans  200 rows  3 clusters")
    assert "<progress" not in last["text/html"]
    kernel.shell.execution_count = 8  # the next cell
    SphericalKMeans(3, random_state=0, verbose=1).fit(rows[0])
    assert len(kernel.shown) == 2
    assert capfd.readouterr() == ("", "")  # nothing is printed below it


def test_without_a_notebook_nothing_of_it_is_imported(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not notebook.is_notebook()
    assert "IPython" not in sys.modules


def test_words_of_the_line_are_escaped():
    assert notebook.line_html("<b>", 0.5) == (
        '<div style="font-family: monospace"><progress value="0.500" max="1"></progress> &lt;b&gt;</div>'
    )


def test_choices_and_tables_have_an_html_form(rows):
    X, labels = rows
    choice = choose_model(X, random_state=0)
    page = choice._repr_html_()
    assert page.startswith(f"<p>{choice.reason[:20]}")
    assert page.count("<tr") == len(choice.table) + 1
    assert page.count("font-weight: bold") == 1
    assert "<th>n clusters</th>" in page
    assert "is chosen" not in page
    table = select_max_angle(X, [0.5, 1.0])
    assert table._repr_html_().count("<tr") == len(table.table) + 1
    links = tune_links(X[:60], labels[:60], max_rounds=1)
    assert links._repr_html_().count("<tr") == min(10, len(links.outcomes)) + 1


def test_a_notebook_runs_and_stacks_no_lines(tmp_path):
    """A kernel of its own executes it; skipped where none can be started."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: pip install armillary[notebook]")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    cells = [
        FIRST_CELL,
        "for seed in range(5):\n    model = SphericalKMeans(3, random_state=seed, verbose=1).fit(X)",
        "choose_model(X, random_state=0)",
        "name_clusters(labels, texts=[f'word{label} row' for label in labels])",
        "from armillary.plots import plot_cluster_sizes\nplot_cluster_sizes(labels)",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()
    _, progress, choice, names, picture = (cell["outputs"] for cell in book["cells"])
    assert len(progress) == 1
    assert "SphericalKMeans" in progress[0]["data"]["text/plain"]
    assert "<table>" in choice[-1]["data"]["text/html"]
    assert "<td>word0</td>" in names[0]["data"]["text/html"]
    assert "image/png" in picture[0]["data"]
    assert len(choice) == 1
