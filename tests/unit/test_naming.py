"""Names of clusters: the weights by their formula, every source of words, representatives, and sentences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

from armillary import name_clusters
from armillary.exceptions import InputError, InputTypeError
from armillary.naming.telling_words import sampled_documents, word_presence, words_of

CARDS = ["the card was declined", "my card is lost", "card declined again", "a new card please", "declined card"]
RATES = [
    "the exchange rate of today",
    "a bad exchange rate",
    "exchange rates",
    "which exchange rate",
    "rate of exchange",
]
TEXTS = [*CARDS, *RATES]
LABELS = np.repeat([4, 7], 5)


def test_weights_are_those_of_the_formula():
    names = name_clusters(LABELS, texts=TEXTS)
    # all 5 of cluster 4 and 5 of 10 in all have "card"; 3 have "declined"
    assert names.words[4][0] == ("card", pytest.approx(math.log(2.0)))
    assert names.words[4][1] == ("declined", pytest.approx(0.6 * math.log(2.0)))
    assert names[4] == "card, declined"  # other words are in one text alone
    assert names[7] == "exchange, rate"  # rates is a form of rate
    assert dict(names) == {4: "card, declined", 7: "exchange, rate"}
    assert str(names) == "4  card, declined\n7  exchange, rate"
    assert names.source == "words of the texts"


def test_a_word_that_is_everywhere_names_nothing():
    texts = [f"zzz {text}" for text in TEXTS]  # a stop word of no known language
    assert name_clusters(LABELS, texts=texts).names == name_clusters(LABELS, texts=TEXTS).names


def test_names_do_not_depend_on_the_order_of_rows():
    order = np.random.default_rng(0).permutation(len(TEXTS))
    shuffled = name_clusters(LABELS[order], texts=[TEXTS[row] for row in order])
    assert shuffled.names == name_clusters(LABELS, texts=TEXTS).names


def test_noise_has_no_name_and_counts_in_no_share():
    labels = LABELS.copy()
    labels[[0, 5]] = -1
    names = name_clusters(labels, texts=TEXTS, n_words=1)
    assert list(names) == [4, 7]
    assert names.words[4][0] == ("card", pytest.approx(math.log(2.0)))
    assert names.of_rows([-1, 7, 4, 99]) == ["", "exchange", "card", ""]


def test_one_cluster_has_its_commonest_words():
    assert name_clusters([0, 0, 0], texts=["red hat", "red coat", "red"]).words[0][0][0] == "red"


def test_texts_without_words_have_empty_names():
    assert name_clusters([0, 0, 1], texts=["", None, float("nan")]).names == {0: "", 1: ""}


def test_equal_first_words_get_one_more():
    texts = ["alpha beta gamma delta uno"] * 5 + ["alpha beta gamma delta due"] * 5 + ["omega"] * 30
    names = name_clusters(np.repeat([0, 1, 2], [5, 5, 30]), texts=texts, n_words=2)
    assert len(set(names.values())) == 3


def test_vocabulary_of_sparse_and_dense_rows():
    presence, words = word_presence(TEXTS)
    for X in (presence, sp.csr_matrix(presence), presence.toarray()):
        names = name_clusters(LABELS, X=X, vocabulary=words)
        assert names.names == name_clusters(LABELS, texts=TEXTS).names
        assert names.source == "words of the vocabulary"


def test_nearest_items():
    X = np.array([[1.0, 0.1], [1.0, -0.1], [0.0, 1.0]])
    items = (["east", "north", "northeast"], [[2.0, 0.0], [0.0, 3.0], [1.0, 1.0]])
    names = name_clusters([0, 0, 1], X=X, items=items, n_words=1)
    assert dict(names) == {0: "east", 1: "north"}
    assert names.words[1][0] == ("north", pytest.approx(1.0))


def test_a_function_of_the_user():
    seen = []

    def namer(label, words, representatives):
        seen.append((label, words[0], representatives))
        return words[0].upper()

    names = name_clusters(LABELS, texts=TEXTS, namer=namer, n_representatives=1)
    assert dict(names) == {4: "CARD", 7: "EXCHANGE"}
    assert seen[0] == (4, "card", [TEXTS[names.representatives[4][0]]])


def test_representatives_are_nearest_to_the_centre():
    X = np.array([[1.0, 0.3], [1.0, 0.0], [1.0, -0.2], [0.0, 1.0]])
    names = name_clusters([0, 0, 0, 1], X=X, texts=["a"] * 4, n_representatives=2)
    angles = np.abs(
        np.arctan2(X[:3, 1], X[:3, 0]) - np.arctan2(*(X[:3] / np.linalg.norm(X[:3], axis=1)[:, None]).sum(0)[::-1])
    )
    assert names.representatives[0].tolist() == np.argsort(angles)[:2].tolist()
    assert names.representatives[1].tolist() == [3]


def test_large_clusters_are_looked_at_in_part():
    codes = np.repeat([0, 1, -1], [5000, 10, 7])
    rows = sampled_documents(codes)
    assert (np.bincount(codes[rows]) == [1000, 10]).all()
    assert np.diff(rows).min() > 0


def test_a_table_for_notebooks_is_escaped():
    names = name_clusters([0], texts=["x"], namer=lambda *_: "<script>")
    assert "<script>" not in names._repr_html_()
    assert "&lt;script&gt;" in names._repr_html_()


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (lambda: name_clusters([0.5], texts=["a"]), InputError, "`labels` of name_clusters must be ints"),
        (lambda: name_clusters([0, 1], texts=["a"]), InputError, "`texts` of name_clusters must have 2 entries; got 1"),
        (lambda: name_clusters([0], texts="a"), InputTypeError, "must be a sequence of 1 strings; got str"),
        (lambda: name_clusters([0]), InputError, "needs `texts`, or X with a `vocabulary` or with `items`"),
        (lambda: name_clusters([0], vocabulary=["a", "b"]), InputError, "must be given with a vocabulary; got none"),
        (lambda: name_clusters([0], X=np.eye(2), texts=["a"]), InputError, "a row for each of the 1 labels; got 2"),
        (lambda: name_clusters([0, 1], X=np.eye(2), vocabulary=["a"]), InputError, "in the order of the columns"),
        (lambda: name_clusters([0, 1], X=np.eye(2), items=3), InputTypeError, r"must be a pair \(names, vectors\)"),
        (
            lambda: name_clusters([0], texts=["a"], namer=lambda *_: 3),
            InputTypeError,
            "must return a string; it returned int",
        ),
    ],
)
def test_sentences(call, kind, sentence):
    with pytest.raises(kind, match=sentence):
        call()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("foo_ bar 3d d3 it's a_b x don\u2019t", ["bar", "d3", "it's", "a_b", "don\u2019t"]),
        ("für Straße", ["für", "Straße"]),
        ("fu\u0308r Straße", ["für", "Straße"]),  # as some systems write it: the dots behind the u
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("银行转账 iPhone15を買う。", ["银行", "行转", "转账", "iPhone15", "を買", "買う"]),
        ("한국어 단어 😀 ok😀fine", ["한국어", "단어", "ok", "fine"]),
    ],
)
def test_words_of_many_scripts(text, words):
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<b>Letters</b><br/>to <a href='x.html'>us</a>", ["Letters", "to", "us"]),
        ("&lt;em&gt;Letters&lt;/em&gt; &amp; news&nbsp;now", ["Letters", "news", "now"]),
        ("it&#39;s <!DOCTYPE html>ours", ["it's", "ours"]),
        ("where ab <cd and ef> gh", ["where", "ab", "gh"]),  # reads as a tag
        ("ab < cd and ef > gh", ["ab", "cd", "and", "ef", "gh"]),
        ("R&D &c", []),
    ],
)
def test_html_is_no_word(text, words):
    assert words_of(text) == words


def test_clusters_in_scripts_without_spaces_have_names():
    texts = [f"{'银行卡转账' if row % 2 else '大蒜黄油'}{row}" for row in range(20)]
    names = name_clusters(np.arange(20) % 2, texts=texts)
    assert names.words[0][0][0] in "大蒜黄油"
    assert names.words[1][0][0] in "银行卡转账"
