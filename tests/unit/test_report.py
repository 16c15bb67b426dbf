"""The report as a file: what it says, and of which rows; that no word of the user becomes markup."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import fields
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import silhouette_samples

from armillary import DirichletProcessMixture, DPvMFMeans, SphericalKMeans, select_max_angle
from armillary.datasets import make_vmf_mixture
from armillary.engines.select import open_passes
from armillary.exceptions import ArchiveError, InputError, ParameterError
from armillary.points import as_points
from armillary.report import ReportData, write_report
from armillary.report.clusters import MOST_CLUSTERS, cluster_facts, largest
from armillary.report.payload import script_json
from armillary.report.writer import write_page

VOID = {"meta", "link", "img", "br", "wbr", "input"}


class Page(HTMLParser):
    """The parsed page: every element must be closed by its own end tag."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.words, self.text = [], [], [], [], text
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def said(self):
        return " ".join(" ".join(self.words).split())

    @property
    def data(self):
        return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', self.text, re.S)[1])

    def values(self, tag, name):
        return [value for there, key, value in self.attributes if (there, key) == (tag, name)]


@pytest.fixture
def page_of(tmp_path):
    def write(*args, max_points=100_000, **kwargs):
        path = tmp_path / "report.html"
        write_report(path, ReportData(*args, **kwargs), max_points=max_points, n_threads=1)
        return Page(path.read_text(encoding="utf-8"))

    return write


def unpacked(text, dtype):
    return np.frombuffer(base64.b64decode(text), dtype=dtype)


def words_of(text):
    return json.loads(zlib.decompress(base64.b64decode(text)))


def rows_of(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


# --------------------------------------------------------------------------------------------------------- what it says


def test_the_headline_says_how_many_of_what_by_which_model(page_of):
    X, truth, _ = make_vmf_mixture(1200, 3, 4, concentration=100.0, min_angle=1.0, random_state=0)
    model = DPvMFMeans(0.6, random_state=0).fit(X)
    page = page_of(X, model.labels_, model, title="Four caps", truth=truth, timings={"reading": 0.5, "fitting": 2.0})
    assert "4 clusters in 1,200 rows. " in page.said
    assert "How they were found 4 clusters in 1,200 rows of 3 numbers, found by DPvMFMeans." in page.said
    assert "DPvMFMeans was fitted with max_angle = 0.6, random_state = 0." in page.said
    assert "Rows are drawn where they are: all angles are true." in page.said
    assert "fitting 2 s" in page.said
    assert "all 2.5 s" in page.said
    assert "ARI 1.000" in page.said


def test_the_table_has_the_facts_of_each_cluster(page_of):
    X, labels, _ = make_vmf_mixture(400, 5, 3, concentration=30.0, random_state=2)
    page = page_of(X, labels)
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    centers = np.array([units[labels == k].sum(axis=0) for k in range(3)])
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    angles = np.degrees(np.arccos(units @ centers.T))
    scores = silhouette_samples(X, labels, metric="cosine")
    lines = re.findall(r'<tr data-cluster="(\d)">(.*?)</tr>', page.text, re.S)
    sizes = np.bincount(labels)
    assert [int(k) for k, _ in lines] == np.argsort(-sizes, kind="stable").tolist()
    for name, line in lines:
        k = int(name)
        own = angles[labels == k, k]
        values = re.findall(r'data-value="([^"]*)"', line)
        assert values[:3] == [str(k), str(sizes[k]), str(sizes[k])]
        assert float(values[3]) == pytest.approx(np.radians(np.median(own)), rel=1e-5)
        others = [np.degrees(np.arccos(centers[k] @ centers[j])) for j in range(3) if j != k]
        assert float(values[4]) == pytest.approx(np.radians(min(others)), rel=1e-5)
        assert float(values[5]) == pytest.approx(scores[labels == k].mean(), rel=1e-5)
        said = [int(row) for row in re.findall(r"row (\d+)", re.sub(r"<[^>]*>", "", line))]
        rows = np.flatnonzero(labels == k)
        central = rows[np.argsort(angles[rows, k])[:3]]
        margins = np.min(np.delete(angles[rows], k, axis=1), axis=1) - angles[rows, k]
        assert said[:3] == central.tolist()
        assert said[3:] == rows[np.argsort(margins)[:3]].tolist()


def test_rows_are_named_by_texts_and_ids(page_of):
    X = rows_of(50, 4)
    texts = [f"text  of\n number {row}" for row in range(50)]
    page = page_of(X, np.arange(50) % 2, texts=texts, ids=[f"key{row}" for row in range(50)])
    assert re.search(r"text of number (\d+) key\1, \d", page.said)
    assert words_of(page.data["texts"]) == [f"text of number {row}" for row in range(50)]
    assert words_of(page.data["ids"]) == [f"key{row}" for row in range(50)]
    assert page_of(X, np.arange(50) % 2).data["texts"] is None


def test_the_choice_is_told_and_drawn(page_of):
    X, labels, _ = make_vmf_mixture(60, 3, 3, random_state=0)
    table = [{"model": "SphericalKMeans", "n_clusters": k, "score": -abs(k - 3), "note": "a < b"} for k in range(2, 8)]
    page = page_of(
        X, labels, choice=SimpleNamespace(reason=["Three fit best.", "So it is."], table=table, criterion="fit")
    )
    assert "Three fit best. So it is." in page.said
    assert "How the number of clusters was chosen" in page.said
    assert "3 clusters: fit 0" in page.said
    assert "What was compared, in 6 lines" in page.said
    assert "a < b" in page.said
    found = select_max_angle(X, [0.3, 0.8, 1.2])
    page = page_of(X, labels, choice=found)
    assert found.reason in page.said
    page = page_of(X, labels, choice=SimpleNamespace(reason="One sentence.", table=[], criterion="none"))
    assert "One sentence." in page.said


def test_what_is_said_is_not_said_twice(page_of):
    choice = SimpleNamespace(reason="Three fit best.", table=[], criterion="fit")
    page = page_of(rows_of(30, 3), np.arange(30) % 3, choice=choice, notes=["Three fit best. On a sample.", "More."])
    assert page.said.count("Three fit best.") == 2  # at the top, and where the choice is told
    assert "On a sample. More." in page.said


def test_the_main_class_of_each_cluster(page_of):
    labels = np.repeat([0, 1, -1], [10, 8, 6])
    truth = ["ant"] * 4 + ["bee_hive"] * 6 + ["cat"] * 5 + ["ant"] * 3 + ["bee_hive"] * 6
    page = page_of(rows_of(24, 3), labels, truth=truth)
    assert re.findall(r'class="class" data-value="([^"]*)"', page.text) == ["bee_hive", "cat"]
    assert "bee_ hive 60.0 %" in page.said
    assert "cat 62.5 %" in page.said
    assert "Rows in no cluster count as one cluster more." in page.said


def test_chains_of_a_sampler_are_drawn(page_of):
    X, _, _ = make_vmf_mixture(40, 3, 2, concentration=50.0, random_state=0)
    model = DirichletProcessMixture("vmf", n_draws=4, n_burn_in=3, random_state=0).fit(X)
    page = page_of(X, model.labels_, model)
    assert "How the chains went" in page.said
    assert "log joint density" in page.said


def test_command_and_snippet_are_as_given(page_of):
    command, snippet = "armillary cluster 'a b.npy' --seed 1 && echo <done>", 'import armillary\n\nprint("<b>")\n'
    page = page_of(rows_of(20, 3), np.zeros(20, dtype=int), command=command, snippet=snippet)
    assert command in page.words
    assert snippet.rstrip() in page.words


# -------------------------------------------------------------------------------------------------------- what is drawn


def test_three_columns_are_drawn_where_they_are(page_of):
    X = rows_of(300, 3)
    labels = np.random.default_rng(0).integers(-1, 5, 300)
    data = page_of(X, labels).data
    places = unpacked(data["places"], "<i2").reshape(-1, 3) / 32767
    np.testing.assert_allclose(places, X / np.linalg.norm(X, axis=1, keepdims=True), atol=2e-5)
    assert data["kind"] == "sphere"
    codes = unpacked(data["codes"], "<u2")
    assert codes.tolist() == [label if label >= 0 else 5 for label in labels]
    assert data["names"] == [0, 1, 2, 3, 4]
    assert data["rows"] is None


def test_three_dimensions_among_many_are_found(page_of):
    X = rows_of(200, 3) @ rows_of(3, 30, seed=1)
    data = page_of(X, np.arange(200) % 3).data
    places = unpacked(data["places"], "<i2").reshape(-1, 3) / 32767
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert data["kind"] == "sphere"
    np.testing.assert_allclose(places @ places.T, units @ units.T, atol=1e-4)


def test_two_columns_lie_on_a_circle(page_of):
    X = rows_of(100, 2)
    page = page_of(X, np.arange(100) % 2)
    places = unpacked(page.data["places"], "<i2").reshape(-1, 3) / 32767
    np.testing.assert_allclose(np.arctan2(places[:, 1], places[:, 0]), np.arctan2(X[:, 1], X[:, 0]), atol=1e-3)
    assert places[:, 2].min() > 0.0  # all on the side that is seen
    assert "Rows of two numbers lie on a circle" in page.said


def test_a_projection_keeps_clusters_apart_and_says_how_well(page_of):
    X, labels, _ = make_vmf_mixture(900, 30, 4, concentration=200.0, min_angle=1.2, random_state=0)
    page = page_of(X, labels)
    places = unpacked(page.data["places"], "<i2").reshape(-1, 3) / 32767
    np.testing.assert_allclose(np.linalg.norm(places, axis=1), 1.0, atol=1e-4)
    centers = np.array(page.data["centers"])
    nearest = (places @ centers.T).argmax(axis=1)
    assert (nearest == labels).mean() > 0.99
    fidelity = float(re.search(r"rank correlation of (0\.\d+)", page.said)[1])
    assert fidelity > 0.5
    # noise has no order to keep, and the page does not pretend
    page = page_of(rows_of(900, 60, seed=3), np.arange(900) % 4)
    assert float(re.search(r"rank correlation of (-?0\.\d+)", page.said)[1]) < 0.35


def test_the_projection_does_not_look_at_labels(page_of):
    X = rows_of(400, 20)
    first, second = (page_of(X, labels).data["places"] for labels in (np.arange(400) % 3, np.zeros(400, dtype=int)))
    assert first == second


def test_the_angles_of_a_row_are_the_true_ones(page_of):
    X, labels, _ = make_vmf_mixture(300, 9, 4, concentration=10.0, random_state=1)
    labels = np.where(np.arange(300) % 10 == 0, -1, labels)
    data = page_of(X, labels).data
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    centers = np.array([units[labels == k].sum(axis=0) for k in range(4)])
    angles = np.degrees(np.arccos(units @ (centers / np.linalg.norm(centers, axis=1, keepdims=True)).T))
    own = unpacked(data["angles"], np.uint8)
    is_member = labels >= 0
    assert (own[~is_member] == 255).all()
    assert data["angleScale"] == pytest.approx(angles[is_member, labels[is_member]].max() / 254.0)
    shown = own[is_member] * data["angleScale"]
    np.testing.assert_allclose(shown, angles[is_member, labels[is_member]], atol=0.51 * data["angleScale"])
    angles[is_member, labels[is_member]] = np.inf
    assert unpacked(data["nextCodes"], "<u2").tolist() == angles.argmin(axis=1).tolist()
    shown = unpacked(data["nextAngles"], np.uint8) * data["nextScale"]
    np.testing.assert_allclose(shown, angles.min(axis=1), atol=0.51 * data["nextScale"])
    # the matrix of the page, in its order
    order = data["matrix"]["order"]
    between = unpacked(data["matrix"]["angles"], np.uint8).reshape(4, 4) * data["matrix"]["step"]
    units = centers[order] / np.linalg.norm(centers[order], axis=1, keepdims=True)
    expected = np.degrees(np.arccos(np.clip(units @ units.T, -1.0, 1.0)))
    np.testing.assert_allclose(between, expected, atol=0.51 * data["matrix"]["step"])


def test_of_many_rows_some_are_drawn_and_all_are_counted(page_of):
    X, labels, _ = make_vmf_mixture(5000, 3, 3, concentration=50.0, random_state=0)
    page = page_of(X, labels, max_points=500)
    assert (
        "of 5,000 rows are drawn: some that are evenly spaced, and those that the table names. All numbers are of"
        in page.said
    )
    rows = unpacked(page.data["rows"], "<u4")
    assert 500 <= len(rows) <= 500 + 18
    assert set(np.arange(500) * 10) <= set(rows.tolist())
    places = unpacked(page.data["places"], "<i2").reshape(-1, 3) / 32767
    np.testing.assert_allclose(places, X[rows] / np.linalg.norm(X[rows], axis=1, keepdims=True), atol=2e-5)
    # the rows that the table names can be shown
    for place, said in re.findall(r'<li data-point="(\d+)">row (\d+) ', page.text):
        assert rows[int(place)] == int(said)
    assert page.data["sizes"] == np.bincount(labels).tolist()


# ------------------------------------------------------------------------------------------------------ odd clusterings


@pytest.mark.parametrize(
    ("n", "d", "labels"),
    [
        (1, 4, [0]),
        (2, 3, [0, 1]),
        (3, 7, [-1, -1, -1]),
        (30, 6, np.zeros(30, dtype=int)),
        (30, 6, np.arange(30)),
        (40, 5, np.repeat([4_000_000_000, 7, -1, 12], 10)),
        (25, 2, np.arange(25) % 2),
    ],
)
def test_odd_numbers_of_clusters(page_of, n, d, labels):
    page = page_of(rows_of(n, d), labels)
    n_clusters = len({label for label in np.asarray(labels).tolist() if label >= 0})
    assert f"{n_clusters} cluster{'' if n_clusters == 1 else 's'} in {n} row" in page.said
    assert "nan" not in page.said.lower().replace("finance", "")


def test_five_hundred_clusters(page_of):
    X = rows_of(2500, 8).astype(np.float32)
    page = page_of(X, np.arange(2500) % 500)
    assert page.text.count("<tr data-cluster=") == 500
    assert "The 200 largest clusters are shown." in page.said


def test_thousands_of_clusters_are_cut_and_said(page_of):
    labels = np.concatenate([np.repeat(np.arange(1000), 2), np.arange(1000, 1300)])
    page = page_of(rows_of(len(labels), 3), labels)
    assert "1,300 clusters in 2,300 rows" in page.said
    assert "The 1,000 largest clusters are shown. 300 more clusters with 300 rows in all, none larger" in page.said
    codes = unpacked(page.data["codes"], "<u2")
    assert (codes[2000:] == 1001).all()
    assert "Largest cluster rows 0 2 1 2" in page.said  # lists in place of bars


def test_rows_without_a_direction_are_counted_and_left_out(page_of):
    X = rows_of(60, 3)
    X[[4, 9]] = np.nan
    X[17] = 0.0
    labels = np.arange(60) % 3
    labels[[4, 9]] = -1
    page = page_of(X, labels)
    assert "3 rows have no direction (all zeros, or not numbers) and are not drawn." in page.said
    assert "2 rows (3.3 %) belong to no cluster." in page.said  # as the terminal says
    assert page.data["n"] == 57
    assert set(unpacked(page.data["rows"], "<u4")) == set(range(60)) - {4, 9, 17}


def test_empty_clusters_of_a_model_are_said(page_of):
    X, _, _ = make_vmf_mixture(300, 3, 3, concentration=50.0, random_state=0)
    model = SphericalKMeans(5, random_state=0).fit(X)
    labels = model.labels_
    kept = labels < 3
    page = page_of(X[kept], labels[kept], model)
    assert "The model itself counts 5 clusters, of which 2 have no rows here." in page.said


def test_rows_that_cancel(page_of):
    page = page_of([[1.0, 0, 0], [-1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]], [0, 0, 1, 1])
    assert "2 clusters in 4 rows" in page.said


def test_sparse_and_dense_rows_give_the_same_page(page_of):
    X = sp.random(300, 2000, 0.02, format="csr", random_state=0) + sp.csr_array(
        ([1.0] * 300, (range(300), [0] * 300)), (300, 2000)
    )
    labels = np.arange(300) % 4
    sparse, dense = page_of(sp.csr_matrix(X), labels), page_of(X.toarray(), labels)
    assert "rows of 2,000 numbers, sparse" in sparse.said
    # sums in another order: the same facts
    assert sparse.data["codes"] == dense.data["codes"]
    close = [unpacked(page.data["angles"], np.uint8).astype(int) for page in (sparse, dense)]
    assert np.abs(close[0] - close[1]).max() <= 1


def test_fifty_thousand_columns(page_of):
    X = sp.random(150, 50_000, 0.001, format="csr", random_state=0)
    assert "rows of 50,000 numbers" in page_of(X, np.arange(150) % 3).said


def test_the_same_data_give_the_same_bytes_with_any_number_of_threads(tmp_path):
    X, labels, _ = make_vmf_mixture(5000, 40, 3, concentration=50.0, random_state=0)
    for n_threads in (1, 2):
        write_report(tmp_path / f"{n_threads}.html", ReportData(X, labels), n_threads=n_threads)
    assert (tmp_path / "1.html").read_bytes() == (tmp_path / "2.html").read_bytes()


def test_silhouettes_of_very_many_rows_are_those_of_some(page_of, monkeypatch):
    monkeypatch.setattr("armillary.report.clusters._MOST_PRODUCTS", 9000.0)
    X, labels, _ = make_vmf_mixture(4000, 3, 3, concentration=50.0, min_angle=1.0, random_state=0)
    page = page_of(X, labels)
    assert "Of 1,000 rows, evenly spaced." in page.said
    monkeypatch.undo()
    exact = page_of(X, labels)
    means = [float(re.search(r"mean silhouette (0\.\d+)", one.said)[1]) for one in (page, exact)]
    assert means[0] == pytest.approx(means[1], abs=0.01)
    assert "evenly spaced" not in exact.said


def test_rows_from_files_and_tables(page_of, tmp_path):
    X = rows_of(60, 5).astype(np.float32)
    np.save(tmp_path / "rows.npy", X)
    labels = np.arange(60) % 3
    mapped = page_of(np.load(tmp_path / "rows.npy", mmap_mode="r"), labels.tolist())
    pandas = pytest.importorskip("pandas")
    frame = page_of(
        pandas.DataFrame(X), pandas.Series(labels), texts=pandas.Series(["word", None] * 30, index=range(60, 0, -1))
    )
    assert mapped.data["places"] == frame.data["places"] == page_of(X, labels).data["places"]
    assert words_of(frame.data["texts"])[:2] == ["word", ""]


# -------------------------------------------------------------------------------------------------------------- escapes

EVIL = "</script><script>alert('&')</script>\"'<img src=x onerror=alert(1)>\u2028"


def test_no_word_of_the_user_becomes_markup(page_of):
    X, labels, _ = make_vmf_mixture(60, 3, 3, random_state=0)

    def tags(word):
        choice = SimpleNamespace(
            reason=word,
            criterion=word,
            table=[{"n_clusters": k, "score": k, "model": word, word: word} for k in (2, 3)],
        )
        page = page_of(
            X,
            labels,
            title=word,
            ids=[word] * 60,
            texts=[word] * 60,
            truth=[word] * 60,
            choice=choice,
            timings={word: 1.0},
            command=word,
            snippet=word,
            notes=[word],
        )
        assert " ".join(word.split()) in page.said
        return page.tags, {(tag, name) for tag, name, _ in page.attributes}

    plain, evil = tags("harmless"), tags(EVIL)
    assert plain[0].count("script") == evil[0].count("script") == 2
    assert [tag for tag in plain[0] if tag != "wbr"] == [tag for tag in evil[0] if tag != "wbr"]
    assert plain[1] == evil[1]


def test_data_cannot_end_its_script():
    assert script_json({"a": EVIL}).count("<") == 0
    assert json.loads(script_json({"a": EVIL})) == {"a": EVIL}


def test_nothing_is_loaded_from_outside(page_of):
    page = page_of(rows_of(50, 3), np.arange(50) % 2, texts=["x"] * 50, command="c", snippet="s")
    outside = [
        (tag, name, value)
        for tag, name, value in page.attributes
        if name in ("src", "href", "xlink:href", "action", "srcset") and not value.startswith(("data:", "#"))
    ]
    assert outside == []
    assert not re.search(r"url\((?!#)|@import|fetch\(|XMLHttpRequest|WebSocket", page.text)
    (policy,) = [value for value in page.values("meta", "content") if "default-src" in value]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")


def test_words_that_are_no_unicode(page_of):
    page = page_of(rows_of(9, 3), np.zeros(9, dtype=int), texts=["lone \ud800 surrogate \x00"] * 9, title="\ud800")
    assert words_of(page.data["texts"])[0].startswith("lone ? surrogate")


# ------------------------------------------------------------------------------------------------------------- the file


def test_a_failure_leaves_the_old_file(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(InputError):
        write_report(path, ReportData(rows_of(5, 3), [0, 1]))
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(FileNotFoundError):
        write_report(tmp_path / "nowhere" / "report.html", ReportData(rows_of(5, 3), [0] * 5))
    with pytest.raises(ArchiveError, match="write_report writes a regular file"):
        write_report(tmp_path, ReportData(rows_of(5, 3), [0] * 5))


def test_the_size_stays_sensible(tmp_path):
    rng = np.random.default_rng(0)
    words = ["river", "stone", "cloud", "green", "seven", "paper", "light", "under", "north", "quiet"]
    texts = [" ".join(words[k] for k in row) for row in rng.integers(0, 10, (20_000, 30))]
    path = tmp_path / "report.html"
    write_report(path, ReportData(rows_of(20_000, 3).astype(np.float32), rng.integers(0, 30, 20_000), texts=texts))
    assert path.stat().st_size < 2.5e6


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"labels": [0.0] * 5},
            (
                "`labels` of write_report must be ints of shape (5,), one per row of X; got float64 of shape (5,). "
                "Give `model.labels_` or `model.predict(X)`."
            ),
        ),
        ({"labels": [0, 0, 0, 0, -2]}, "`labels` of write_report must be -1 (noise) or more; got -2. Give noise -1."),
        (
            {"texts": ["a"]},
            "`texts` of write_report must have one entry per row of X, 5; got 1. Give them in the order of the rows.",
        ),
        (
            {"X": np.full((5, 3), np.nan)},
            (
                "X of write_report must have a row with a direction; all 5 are zero or not finite. Give the rows that "
                "were clustered."
            ),
        ),
    ],
)
def test_sentences(tmp_path, changes, sentence):
    content = {"X": rows_of(5, 3), "labels": [0] * 5} | changes
    with pytest.raises(InputError) as caught:
        write_report(tmp_path / "report.html", ReportData(**content))
    assert str(caught.value) == sentence


def test_max_points_is_checked(tmp_path):
    with pytest.raises(ParameterError, match="`max_points` of write_report must be an int >= 1; got 0"):
        write_report(tmp_path / "report.html", ReportData(rows_of(5, 3), [0] * 5), max_points=0)


# ------------------------------------------------------------------------------------------------- facts known already


def facts_of(X, labels, most_clusters=MOST_CLUSTERS):
    with open_passes(as_points(X, "test"), 1, "test") as passes:
        return cluster_facts(passes, labels, most_clusters=most_clusters)


def test_a_page_of_known_facts_is_the_page(tmp_path):
    X = rows_of(80, 3)
    labels = SphericalKMeans(4, random_state=0).fit_predict(X).astype(np.int64)
    data = ReportData(X, labels)
    write_report(tmp_path / "one.html", data, n_threads=1)
    write_page(tmp_path / "other.html", data, n_threads=1, facts=facts_of(X, labels))
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "other.html").read_bytes()


def test_the_largest_of_all_clusters_are_those_that_a_page_of_few_measures():
    X = rows_of(300, 4, seed=1)
    labels = np.minimum(np.random.default_rng(2).geometric(0.2, size=300) - 2, 11)
    every, wanted = facts_of(X, labels), facts_of(X, labels, 5)
    with open_passes(as_points(X, "test"), 1, "test") as passes:
        found = largest(passes, every, 5)
        assert largest(passes, every) is every
    assert wanted.n_small > 3
    of_all = {"silhouettes", "row_silhouettes"}  # against all clusters, as summary.json has them
    for field in fields(wanted):
        if field.name not in of_all:
            np.testing.assert_array_equal(getattr(found, field.name), getattr(wanted, field.name), field.name)
    np.testing.assert_array_equal(found.silhouettes, every.silhouettes[np.isin(every.names, wanted.names)])
    is_shown = wanted.codes >= 0
    np.testing.assert_array_equal(found.row_silhouettes[is_shown], every.row_silhouettes[is_shown])
    assert np.isnan(found.row_silhouettes[~is_shown]).all()
