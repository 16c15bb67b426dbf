"""Texts as sparse rows of weighed words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import scipy.sparse as sp

from armillary.exceptions import InputError, InputTypeError
from armillary.naming.telling_words import words_of

_WHO = "tfidf_rows"
# A word of fewer texts tells nothing of a cluster, and most words are such; of few texts two are enough.
_FEWEST_TEXTS, _FEW_TEXTS = 3, 1000
_MOST_SHARE = 0.5  # of the texts that may have a word
_MOST_WORDS = 50_000
_AT_ONCE = 1000  # texts between two calls of `advance`

Advance = Callable[[float], None]


def tfidf_rows(texts: Sequence[str], *, advance: Advance | None = None) -> tuple[sp.csr_array, list[str]]:
    """Texts as unit rows of weighed words (TF-IDF).

    Words have two letters or more and no digits first; in Chinese, Japanese and other scripts without spaces each two
    characters that follow each other are one. English stop words are left out, and so are words of more than
    half of the texts and of fewer than three (two of up to 1,000 texts). At most the 50,000 commonest are kept. A word
    counts 1 + log of how often it is in a text, times the log of how rare it is in all of them.

    Parameters
    ----------
    texts : sequence of n strings
    advance : callable, optional
        Called with the number of texts done since the last call.

    Returns
    -------
    rows : CSR array of float32 of shape (n, D)
        A text that has none of the words is a row of zeros: models with `missing="flag"` give it the label -1.
    vocabulary : list of D strings
        The word of each column.

    Raises
    ------
    InputError
        Fewer than two words are left.

    Examples
    --------
    >>> from armillary.texts import tfidf_rows
    >>> rows, vocabulary = tfidf_rows(["red hat", "red coat", "blue coat", "blue hat"])
    >>> rows.shape, vocabulary
    ((4, 4), ['blue', 'coat', 'hat', 'red'])
    """
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer

    if isinstance(texts, str | bytes) or not hasattr(texts, "__len__"):
        raise InputTypeError(
            f"`texts` of {_WHO} must be a sequence of strings; got {type(texts).__name__}. Give a list of texts."
        )
    said = [text if isinstance(text, str) else "" for text in list(texts)]
    for least, most in ((2 if len(said) <= _FEW_TEXTS else _FEWEST_TEXTS, _MOST_SHARE), (1, 1.0)):
        weigher = TfidfVectorizer(
            tokenizer=words_of,
            token_pattern=None,
            stop_words=sorted(ENGLISH_STOP_WORDS),
            min_df=min(least, max(1, len(said))),
            max_df=most,
            max_features=_MOST_WORDS,
            sublinear_tf=True,
            dtype=np.float32,
        )
        try:
            rows = weigher.fit_transform(_followed(said, advance))
        except ValueError:  # no word is left
            continue
        if rows.shape[1] >= 2:
            return sp.csr_array(rows), weigher.get_feature_names_out().tolist()
    raise InputError(
        f"The texts of {_WHO} must have at least two words in all; {len(said):,} texts have fewer that are no stop "
        "words. Check the column, or embed the texts: --embed MODEL."
    )


def _followed(texts: list[str], advance: Advance | None) -> Iterator[str]:
    for number, text in enumerate(texts, start=1):
        yield text
        if advance is not None and number % _AT_ONCE == 0:
            advance(_AT_ONCE)
