"""Rows of counts, and their weights by TF-IDF: words that most documents have say little about any.

    weight of a word in a document = tf x idf,    idf = 1 + ln((1 + n) / (1 + df))

tf is how often it has the word, df how many of the n documents do (as in scikit-learn's `TfidfTransformer`). Rows are
made unit afterwards, as all rows are. 1 + ln tf in the place of tf was tried: better on BBC (ARI 0.84 for 0.78), worse
on re0 (0.08 for 0.15), the same on CNAE-9.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from armillary._typing import Float64Array

WAYS = ("auto", "on", "off")


def are_counts(X: Any) -> bool:
    """Whether X is sparse and every value that it stores is a whole number, none below 0.

    Rows of one word each are none: weights do not turn them, and TF-IDF itself makes a 1 of each.
    """
    if not _is_sparse(X):
        return False
    rows = X.tocsr()
    values, n_words = np.asarray(rows.data), np.diff(rows.indptr)
    if not values.size or n_words.max() < 2:
        return False
    return bool((values >= 0).all() and (values == np.floor(values)).all() and (values > 0).any())


def inverse_frequencies(X: Any) -> Float64Array:
    """idf of each column (D,)."""
    if _is_sparse(X):
        rows: Any = X.tocsr()
        n_rows, frequencies = X.shape[0], np.bincount(rows.indices[rows.data != 0], minlength=X.shape[1])
    else:
        dense = np.nan_to_num(np.asarray(X, dtype=np.float64))
        n_rows, frequencies = len(dense), np.count_nonzero(dense, axis=0)
    return np.asarray(1.0 + np.log((1.0 + n_rows) / (1.0 + frequencies)))


def weighed(X: Any, idf: Float64Array) -> Any:
    """The rows of X (n, D), dense or sparse, weighed; the rows given are not changed."""
    if _is_sparse(X):
        sparse: Any = X.tocsr(copy=True)
        sparse.data = sparse.data * idf.astype(_kind(sparse.data))[sparse.indices]
        return sparse
    dense = np.asarray(X)
    return dense * idf.astype(_kind(dense))


def _is_sparse(X: Any) -> TypeGuard[Any]:
    """Whether X is one of SciPy's; what it has is not told by their common base."""
    return bool(sp.issparse(X))


def _kind(values: npt.NDArray[Any]) -> type[Any]:
    return np.float32 if values.dtype == np.float32 else np.float64
