"""Words that tell clusters apart: a TF-IDF whose documents are clusters.

    weight of word w in cluster c  =  p(w | c) log(p(w | c) / p(w))

p is the share of documents that have the word, so a long document counts once, and the logarithm is 0 for a word that
is as common elsewhere: stop words of any language weigh nothing, with no list of them. (English ones are left out all
the same: in a few hundred short texts chance alone lifts some.) In the usual class-based TF-IDF, log(1 + A / f(w)), a
word that is in every document still weighs.
"""

from __future__ import annotations

import html
import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from armillary._typing import Float64Array, IntArray

# A word: two letters or more, no digit first, no underscore at its end.
_WORD = re.compile(r"\b[^\W\d_][\w'\u2019]*[^\W_]\b")
# Scripts that put no spaces between words: Thai, Lao, Burmese, Khmer, Chinese, Japanese.
_SPACELESS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff"
)
_RUNS = re.compile(f"([{_SPACELESS}]+)")
# What a page on the web has between its words: tags, with a letter after the bracket (a < b is none).
_TAG = re.compile(r"<[/!]?[A-Za-z][^<>]{0,1000}>")
_LAST_MARK = 0xFFFF  # beyond, Python looks at sets of characters one by one
# Documents looked at in a cluster, and letters of each of them.
_MOST_DOCUMENTS, _MOST_LETTERS = 1000, 5000
# A word in one document of a cluster alone says nothing of the cluster, once it has this many.
_FEW_DOCUMENTS = 5
# Letters by which two forms of a word may differ (card, cards; pay, paying) where they begin alike.
_LONGEST_ENDING, _SHORTEST_STEM = 3, 3

Words = list[tuple[str, float]]


def words_of(text: str) -> list[str]:
    """The words of a text, as they are written: two letters or more, no digit first.

    Where a script has no spaces, each two characters that follow each other are a word. Tags of HTML are none, and
    &amp; and the like are what they stand for: 35 of 1,200 news had met in a cluster "lt, gt, color".
    """
    if "&" in text:
        text = html.unescape(text)
    if "<" in text:
        text = _TAG.sub(" ", text)
    if text.isascii():
        return _WORD.findall(text)
    text = unicodedata.normalize("NFC", text)  # accents are one with their letter, or two, by what wrote the text
    mark, marked_word = _marks()
    found: list[str] = (_WORD if mark.search(text) is None else marked_word).findall(text)
    if _RUNS.search(text) is None:
        return found
    return [part for word in found for part in _parts(word)]


def _parts(word: str) -> Iterator[str]:
    """Pairs of characters of the runs without spaces, and what stands between them."""
    for number, run in enumerate(_RUNS.split(word)):
        if number % 2:
            yield from map("".join, itertools.pairwise(run))
        elif len(run) > 1 and run[0].isalpha():
            yield run


@cache
def _marks() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A mark that stands alone, such as a vowel of Hindi; and `_WORD` with marks as parts of words."""
    numbers = range(_LAST_MARK + 1)
    mark = "".join(chr(number) for number in numbers if unicodedata.category(chr(number)) in ("Mn", "Mc"))
    inside = rf"\w{mark}"
    return re.compile(f"[{mark}]"), re.compile(
        rf"(?<![{inside}])[^\W\d_][{inside}'\u2019]*(?:[^\W_]|[{mark}])(?![{inside}])"
    )


def sampled_documents(codes: IntArray) -> IntArray:
    """Row numbers, increasing: all of small clusters, evenly spaced ones of large ones; none of code -1."""
    order = np.argsort(codes, kind="stable")
    order = order[np.searchsorted(codes[order], 0) :]
    parts = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(order) else []
    kept = [part[np.arange(m) * len(part) // m] for part in parts for m in [min(len(part), _MOST_DOCUMENTS)]]
    return np.sort(np.concatenate(kept)) if kept else np.empty(0, dtype=np.int64)


def word_presence(texts: Sequence[str]) -> tuple[sp.csr_array, list[str]]:
    """Which words (columns) are in which texts (rows), and the words; none where no text has one."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

    counter = CountVectorizer(
        tokenizer=words_of,
        token_pattern=None,
        stop_words=[*ENGLISH_STOP_WORDS, *_AUXILIARIES, *_CONTRACTIONS],
        binary=True,
        dtype=np.float64,
    )
    try:
        found = counter.fit_transform([text[:_MOST_LETTERS] for text in texts])
    except ValueError:  # no text has a word
        return sp.csr_array((len(texts), 0)), []
    return sp.csr_array(found), counter.get_feature_names_out().tolist()


# Words of grammar that scikit-learn's list lacks.
_AUXILIARIES = (
    "does", "doing", "did", "didnt", "doesnt", "dont", "im", "ive", "id", "isnt", "wont", "wasnt", "just", "really",
)  # fmt: skip
# Short forms, which the word pattern keeps whole and scikit-learn's list lacks.
_CONTRACTIONS = tuple(
    f"{start}{mark}{end}"
    for mark in "'\u2019"
    for start, ends in (
        *((word, ("m", "ve", "d", "ll", "re", "s")) for word in ("i", "you", "he", "she", "it", "we", "they", "that")),
        *((word, ("s", "re")) for word in ("what", "there", "who", "how", "where", "here", "let")),
        *((word, ("t",)) for word in ("can", "don", "won", "isn", "doesn", "didn", "hasn", "haven", "aren", "couldn")),
        *((word, ("t",)) for word in ("wasn", "wouldn", "shouldn", "weren", "ain", "hadn")),
    )
    for end in ends
)


def _shares(presence: sp.csr_array, codes: IntArray, n_clusters: int) -> sp.csr_array:
    """The share of each cluster's documents that have a word, (K, V)."""
    n_rows = presence.shape[0]
    members = sp.csr_array((np.ones(n_rows), (codes, np.arange(n_rows))), shape=(n_clusters, n_rows))
    sizes = np.maximum(np.bincount(codes, minlength=n_clusters), 1)
    return sp.csr_array(sp.diags_array(1.0 / sizes) @ (members @ presence))


def telling_words(
    presence: sp.csr_array, vocabulary: Sequence[str], codes: IntArray, sizes: IntArray, n_words: int
) -> list[Words]:
    """For each cluster its words by falling weight, at most `n_words`; of forms of one word only the weightiest.

    `codes` (m,) are clusters of the documents looked at; `sizes` (K,) all documents, by which clusters are weighed.
    """
    n_clusters = len(sizes)
    shares = _shares(presence, codes, n_clusters)
    looked_at = np.bincount(codes, minlength=n_clusters)
    overall = (sizes / sizes.sum()) @ shares  # (V,)
    return [_first(_weights(shares, k, overall, int(looked_at[k])), vocabulary, n_words) for k in range(n_clusters)]


def _weights(shares: sp.csr_array, k: int, overall: Float64Array, n_documents: int) -> tuple[IntArray, Float64Array]:
    """Columns of the words of a cluster that are commoner in it than elsewhere, and their weights."""
    start, stop = shares.indptr[k], shares.indptr[k + 1]
    columns, own = shares.indices[start:stop], shares.data[start:stop]
    weights = own * np.log(own / overall[columns])
    least = 1.5 if n_documents >= _FEW_DOCUMENTS else 0.5  # documents
    is_kept = (weights > 0.0) & (own * n_documents > least)
    if not is_kept.any():  # one cluster of all rows, or words that nobody shares: the commonest have to do
        is_kept, weights = np.ones(len(own), dtype=np.bool_), own
    return columns[is_kept], weights[is_kept]


def _first(weighed: tuple[IntArray, Float64Array], vocabulary: Sequence[str], n_words: int) -> Words:
    return first_forms(_by_weight(*weighed, vocabulary), n_words)


def first_forms(words: Iterable[tuple[str, float]], n_words: int) -> Words:
    """The first words that are no forms of one before them."""
    chosen: Words = []
    for word, weight in words:
        if not any(_are_forms(word, other) for other, _ in chosen):
            chosen.append((word, weight))
        if len(chosen) == n_words:
            break
    return chosen


def _by_weight(columns: IntArray, weights: Float64Array, vocabulary: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Words by falling weight, of equals in the order of the alphabet."""
    rounded: npt.NDArray[np.float64] = np.round(weights, 12)  # the last bits depend on the order of a sum
    words = np.array([vocabulary[column] for column in columns], dtype=object)
    for place in np.lexsort((words.astype(str), -rounded)) if len(words) else ():
        yield str(words[place]), float(weights[place])


def _are_forms(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    if len(short) < _SHORTEST_STEM or len(long) - len(short) > _LONGEST_ENDING:
        return False
    return long.startswith(short) or (len(short) > 4 and long.startswith(short[:-1]))
