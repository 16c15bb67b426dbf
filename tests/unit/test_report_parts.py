"""Parts of the report: flat maps, overlaps, levels, membership, pictures, lists of many clusters, what it holds."""

from __future__ import annotations

import base64
import json
import re
import sys
import types
from types import SimpleNamespace

import numpy as np
import pytest

from armillary.datasets import make_vmf_mixture
from armillary.exceptions import InputError, MissingExtraError
from armillary.palette import MORE_COLORS, PALETTE
from armillary.plots.similarity import similarity_order, similarity_tree
from armillary.plots.sphere import cluster_colors
from armillary.report import ReportData, write_report


@pytest.fixture(scope="module")
def rows():
    X, labels, _ = make_vmf_mixture(300, 12, 4, concentration=60.0, min_angle=0.9, random_state=0)
    return X.astype(np.float32), labels


@pytest.fixture
def page_of(tmp_path):
    def page(*arguments, **options):
        write_report(tmp_path / "page.html", ReportData(*arguments, **options))
        return (tmp_path / "page.html").read_text()

    return page


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_the_first_paragraph_is_for_people(page_of, rows):
    choice = SimpleNamespace(
        reason="By a method.", criterion="score", table=[{"agreement": 0.837, "is_chosen": True, "n_clusters": 4}]
    )
    names = {0: "lost cards", 1: "refunds", 2: "rates", 3: "phones"}
    page = page_of(*rows, choice=choice, names=names)
    headline = re.search(r'<p class="headline">(.*?)</p>', page, re.DOTALL)[1]
    assert headline.startswith(
        "<strong>4 clusters</strong> in 300 rows. Fits on half of the rows agree 84%. The largest are "
    )
    assert "By a method." not in headline
    unclear = SimpleNamespace(reason="", criterion="score", table=[], is_clear=False)
    said = "They are not clear: rows like these without clusters have clusters nearly as clear."
    assert said in page_of(*rows, choice=unclear)


def test_given_places_are_the_flat_map(page_of, rows):
    X, labels = rows
    places = X[:, :2] * 7.0 + 3.0
    page = page_of(X, labels, map=places)
    data = data_of(page)
    flat = np.frombuffer(base64.b64decode(data["flat"]), "<i2").reshape(-1, 2) / 32767
    shift = np.linalg.lstsq(np.column_stack([places, np.ones(300)]), flat, rcond=None)
    inside = np.abs(flat).max(axis=1) < 1.0
    assert inside.mean() > 0.98
    assert shift[0][0, 0] == pytest.approx(shift[0][1, 1], rel=0.05)  # one scale for both axes
    assert "The flat map is by the places that were given" in page
    kept = int(re.search(r"<b>(\d+)%</b> are among the ten nearest", page)[1])
    assert 3 < kept < 60  # two of twelve numbers keep more than chance, 10 of 299, and less than all


def test_a_perfect_map_keeps_all_neighbours(page_of):
    turns = np.linspace(0.0, 1.0, 60, endpoint=False) ** 1.3
    X = np.column_stack([np.cos(turns), np.sin(turns)])
    assert "<b>100%</b> are among the ten nearest" in page_of(X, np.zeros(60, dtype=int), map=X)


def test_umap_is_asked_by_its_name(page_of, rows, monkeypatch):
    made = []

    class UMAP:
        def __init__(self, **options):
            made.append(options)

        def fit_transform(self, X):
            return X[:, :2]

    module = types.ModuleType("umap")
    module.UMAP = UMAP
    monkeypatch.setitem(sys.modules, "umap", module)
    page = page_of(*rows, map="umap")
    assert made == [{"n_components": 2, "metric": "cosine", "random_state": 0, "n_jobs": 1}]
    assert "The flat map is by UMAP" in page
    monkeypatch.setattr("armillary.report.flat_map._MOST_LEARNED", 100)  # the others lie beside their nearest
    places = np.frombuffer(base64.b64decode(data_of(page_of(*rows, map="umap"))["flat"]), "<i2")
    assert len(places) == 600


def test_overlaps_are_counted(page_of):
    draws = np.random.default_rng(0)
    # two clusters at 20 degrees with spread, and one far away
    middles = np.array([[1.0, 0.0, 0.0], [np.cos(0.35), np.sin(0.35), 0.0], [0.0, 0.0, 1.0]])
    labels = np.repeat([0, 1, 2], 100)
    X = middles[labels] + draws.normal(scale=0.12, size=(300, 3))
    page = page_of(X, labels, names={0: "left", 1: "right", 2: "up"})
    table = re.search(r"Where clusters overlap</h3>.*?<tbody>(.*?)</tbody>", page, re.DOTALL)[1]
    lines = re.findall(r'<th scope="row">(.*?)</th>', table)
    assert lines[0] == "0 left and 1 right"
    assert not any("up" in line for line in lines)


def test_levels_nest_in_the_page(page_of, rows):
    X, labels = rows
    page = page_of(X, labels, levels={"coarse": labels // 2, "fine": labels * 3 + np.arange(300) % 3})
    section = re.search(r'<ul class="levels">(.*?)</section>', page, re.DOTALL)[1]
    assert section.count("<details>") == 2
    assert section.count("falls into 3") == 4
    assert re.findall(r"<summary><b>(.*?)</b> <small>(.*?), ", section) == [
        ("clusters 0, 1", "2 clusters"),
        ("clusters 3, 2", "2 clusters"),
    ]
    assert 'id="levels"' not in page_of(X, labels)


def test_membership_is_in_the_data(page_of, rows):
    X, labels = rows
    values = np.linspace(0.0, 1.0, 300)
    values[3] = np.nan
    kept = np.frombuffer(base64.b64decode(data_of(page_of(X, labels, membership=values))["membership"]), np.uint8)
    assert kept[3] == 255
    np.testing.assert_allclose(np.delete(kept, 3) / 254, np.delete(values, 3), atol=0.5 / 254)


def test_pictures_are_small_copies(page_of, rows, tmp_path):
    Image = pytest.importorskip("PIL.Image")
    Image.new("RGBA", (640, 480), (10, 200, 30, 255)).save(tmp_path / "green.png")
    thumbs = data_of(page_of(*rows, images=[str(tmp_path / "green.png")] + [""] * 299))["thumbs"]
    assert list(thumbs) == ["0"]
    assert thumbs["0"].startswith("data:image/jpeg;base64,")
    assert len(thumbs["0"]) < 3000
    (tmp_path / "bad.png").write_text("no picture")
    with pytest.raises(InputError, match=r"The picture '.*bad.png' cannot be read"):
        page_of(*rows, images=[str(tmp_path / "bad.png")] + [""] * 299)
    with pytest.raises(InputError, match=r"The picture '.*none.png' is not there"):
        page_of(*rows, images=[str(tmp_path / "none.png")] + [""] * 299)


def test_the_page_says_what_it_holds(page_of, rows):
    assert "It holds no texts of the rows." in page_of(*rows)
    held = page_of(*rows, texts=["a"] * 300, ids=["b"] * 300)
    assert "It holds texts and ids of 300 rows: pass it on as you would those." in held


def test_many_clusters_have_lists(page_of):
    X, labels, _ = make_vmf_mixture(600, 12, 60, concentration=300.0, random_state=0)
    page = page_of(X, labels)
    for title in ("Largest", "Smallest", "Clearest", "Least clear"):
        assert f"<h3>{title}</h3>" in page
    assert page.count('<figure class="chart"') == 1  # the matrix


def test_the_tree_has_its_leaves_in_the_order_of_the_matrix():
    directions = np.random.default_rng(0).normal(size=(30, 5))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    order = similarity_order(directions)
    again = similarity_order(directions[order])
    assert again.tolist() in (list(range(30)), list(range(30))[::-1])
    assert similarity_tree(directions).shape == (29, 4)


def test_two_dozen_clusters_have_a_colour_each():
    directions = np.random.default_rng(0).normal(size=(24, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    assert len({tuple(color) for color in cluster_colors(directions)}) > 20
    assert len({*PALETTE, *MORE_COLORS}) == 24


@pytest.mark.parametrize(
    ("options", "kind", "sentence"),
    [
        ({"map": "tsne"}, InputError, r"A map must be one of umap, pacmap, or places \(n, 2\); got 'tsne'"),
        ({"map": np.zeros((3, 2))}, InputError, r"must be finite places of shape \(300, 2\), or a name; got shape"),
        ({"map": "pacmap"}, MissingExtraError, "A map by pacmap needs pacmap, which is not installed"),
        ({"membership": [2.0] * 300}, InputError, "`membership` of write_report must be numbers from 0 to 1"),
        ({"membership": [0.5]}, InputError, "`membership` of write_report must have one entry per row of X"),
        ({"levels": {"coarse": [0, 1]}}, InputError, r"`levels\['coarse'\]` of write_report must have one"),
        ({"images": ["a"]}, InputError, "`images` of write_report must have one entry per row"),
    ],
)  # fmt: skip
def test_sentences(page_of, rows, options, kind, sentence, monkeypatch):
    monkeypatch.setitem(sys.modules, "pacmap", None)
    with pytest.raises(kind, match=sentence):
        page_of(*rows, **options)
