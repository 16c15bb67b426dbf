"""Texts as sparse rows of weighed words."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from armillary.durable.whole import whole_file
from armillary.exceptions import InputError, InputTypeError
from armillary.naming.telling_words import words_of

_WHO = "tfidf_rows"
# A word of fewer texts tells nothing of a cluster, and most words are such; of few texts two are enough.
_FEWEST_TEXTS, _FEW_TEXTS = 3, 1000
_MOST_SHARE = 0.5  # of the texts that may have a word
_MOST_WORDLESS = 0.01  # of the texts that may be left without a word by that
_MOST_WORDS = 50_000
_AT_ONCE = 1000  # texts between two calls of `advance`

Advance = Callable[[float], None]


def tfidf_rows(texts: Sequence[str], *, advance: Advance | None = None) -> tuple[sp.csr_array, list[str]]:
    """Texts as unit rows of weighed words (TF-IDF).

    Words have two letters or more and no digits first; in Chinese, Japanese and other scripts without spaces each two
    characters that follow each other are one. English stop words are left out, and so are words of fewer than three
    texts (two of up to 1,000) and of more than half of them, unless one text in 100 has no others. At most the 50,000
    commonest are kept. A word counts 1 + log of how often it is in a text, times the log of how rare it is in all of
    them.

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
        The word of each column. `WordWeights` makes rows of other texts with the same columns.

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
    rows, weights = weighed_texts(texts, advance)
    return rows, weights.vocabulary


@dataclass(frozen=True, eq=False)
class WordWeights:
    """The words of texts and what they weigh, to make rows of other texts that a model of the first can place.

    Examples
    --------
    >>> from armillary.texts import WordWeights
    >>> weights = WordWeights.of(["red hat", "red coat", "blue coat", "blue hat"])
    >>> weights.vocabulary
    ['blue', 'coat', 'hat', 'red']
    >>> weights.rows(["a red car"]).toarray()
    array([[0., 0., 0., 1.]], dtype=float32)
    """

    vocabulary: list[str]  # (D,) the word of each column
    idf: npt.NDArray[np.float64]  # (D,) log of how rare a word is

    @classmethod
    def of(cls, texts: Sequence[str]) -> WordWeights:
        """The weights by which `tfidf_rows` makes rows of these texts.

        Parameters
        ----------
        texts : sequence of n strings

        Returns
        -------
        weights : WordWeights
        """
        return weighed_texts(texts)[1]

    def rows(self, texts: Sequence[str], advance: Advance | None = None) -> sp.csr_array:
        """Unit rows of texts, by these words; those of the first texts are what `tfidf_rows` gives.

        Parameters
        ----------
        texts : sequence of m strings
        advance : callable, optional
            Called with the number of texts done since the last call.

        Returns
        -------
        rows : CSR array of float32 of shape (m, D)
        """
        weigher = _weigher(vocabulary=self.vocabulary)
        weigher.idf_ = self.idf
        return sp.csr_array(weigher.transform(_followed(_checked(texts), advance)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write words and weights as JSON.

        Parameters
        ----------
        path : str or os.PathLike
        """
        known = {"words": self.vocabulary, "idf": [float(weight) for weight in self.idf]}
        with whole_file(path, "WordWeights.save") as stream:
            stream.write(json.dumps(known, ensure_ascii=False).encode("utf-8", "surrogatepass"))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> WordWeights:
        """What `save` wrote.

        Parameters
        ----------
        path : str or os.PathLike

        Returns
        -------
        weights : WordWeights
        """
        try:
            with open(path, "rb") as stream:
                known = json.loads(stream.read().decode("utf-8", "surrogatepass"))
            words, idf = known["words"], np.asarray(known["idf"], dtype=np.float64)
            is_whole = all(isinstance(word, str) for word in words) and idf.shape == (len(words),) and len(words) > 1
            is_whole = is_whole and len(set(words)) == len(words) and bool(np.isfinite(idf).all())
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise _not_weights(path) from error
        except OSError as error:
            raise InputError(f"'{os.fsdecode(path)}' cannot be read: {error.strerror}. Check the path.") from error
        if not is_whole:
            raise _not_weights(path)
        return cls(words, idf)


def _not_weights(path: str | os.PathLike[str]) -> InputError:
    return InputError(
        f"'{os.fsdecode(path)}' must be words with their weights, as cluster writes them beside its model; it is not. "
        "Cluster the texts again."
    )


def _checked(texts: Sequence[str]) -> list[str]:
    if isinstance(texts, str | bytes) or not hasattr(texts, "__len__"):
        raise InputTypeError(
            f"`texts` of {_WHO} must be a sequence of strings; got {type(texts).__name__}. Give a list of texts."
        )
    return [text if isinstance(text, str) else "" for text in list(texts)]


def _weigher(**options: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(tokenizer=words_of, token_pattern=None, sublinear_tf=True, dtype=np.float32, **options)


def weighed_texts(texts: Sequence[str], advance: Advance | None = None) -> tuple[sp.csr_array, WordWeights]:
    """The rows of `tfidf_rows`, and the weights that made them."""
    said = _checked(texts)
    fewest = 2 if len(said) <= _FEW_TEXTS else _FEWEST_TEXTS
    found = _with_words(said, fewest, _MOST_SHARE, advance)
    if found is not None and _n_wordless(found) > _MOST_WORDLESS * len(said):
        # one topic may be more than half of the texts, and its words are all that these have
        every = _with_words(said, fewest, 1.0, None)
        if every is not None and _n_wordless(found) - _n_wordless(every) > _MOST_WORDLESS * len(said):
            found = every
    found = found or _with_words(said, 1, 1.0, advance)
    if found is not None:
        return found
    have = "1 text has" if len(said) == 1 else f"{len(said):,} texts have"
    raise InputError(
        f"The texts of {_WHO} must have at least two words in all; {have} fewer that are no stop words. Check "
        "the column, or embed the texts: --embed MODEL."
    )


def _with_words(
    said: list[str], fewest: int, most: float, advance: Advance | None
) -> tuple[sp.csr_array, WordWeights] | None:
    """Rows of the words of so many texts or more and of no more than this share; None where fewer than two are left."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    weigher = _weigher(
        stop_words=sorted(ENGLISH_STOP_WORDS),
        min_df=min(fewest, max(1, len(said))),
        max_df=most,
        max_features=_MOST_WORDS,
    )
    try:
        rows = weigher.fit_transform(_followed(said, advance))
    except ValueError:  # no word is left
        return None
    if rows.shape[1] < 2:
        return None
    return sp.csr_array(rows), WordWeights(weigher.get_feature_names_out().tolist(), np.array(weigher.idf_, float))


def _n_wordless(found: tuple[sp.csr_array, WordWeights]) -> int:
    """Texts without any of the words."""
    return int(np.count_nonzero(np.diff(found[0].indptr) == 0))


def _followed(texts: list[str], advance: Advance | None) -> Iterator[str]:
    for number, text in enumerate(texts, start=1):
        yield text
        if advance is not None and number % _AT_ONCE == 0:
            advance(_AT_ONCE)
