"""Have chains converged, and how much are their draws worth: split R-hat and the effective sample size.

Both look at one number per draw, (H, T) for H chains of T draws, each chain cut in two halves so that one chain that
drifts is seen too (Gelman et al. 2013, 11.4 and 11.5; Geyer 1992 for where the sum of autocorrelations is cut off).
"""

from __future__ import annotations

import numpy as np

from armillary._typing import ArrayLike, Float64Array
from armillary.exceptions import InputError
from armillary.validation import check_numbers


def split_r_hat(draws: ArrayLike) -> float:
    """The root of the ratio of the total variance to that within half-chains: 1 where all chains agree.

    Values above about 1.01 say that chains have not mixed. Draws that never vary give 1, or infinity where chains are
    constant at different values.

    Parameters
    ----------
    draws : array-like of shape (T,) or (C, T)
        Numbers from one chain or from C chains of equal length.

    Returns
    -------
    float
        From about 1 on.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary.diagnostics import split_r_hat
    >>> draws = np.random.default_rng(0).standard_normal((4, 500))
    >>> split_r_hat(draws) < 1.01, split_r_hat(draws + [[0], [0], [0], [3]]) > 1.1
    (True, True)
    """
    halves = _halves(draws, "split_r_hat")
    length = halves.shape[1]
    within = float(halves.var(axis=1, ddof=1).mean())
    between = float(halves.mean(axis=1).var(ddof=1))
    if within == 0.0:
        return 1.0 if between == 0.0 else float("inf")
    return float(np.sqrt((length - 1.0) / length + between / within))


def effective_sample_size(draws: ArrayLike) -> float:
    """How many independent draws would know the mean as well as these H T correlated ones.

    From the autocorrelations of all half-chains together, summed in pairs up to the first pair that is negative, the
    pairs made to fall. Draws that never vary count in full.

    Parameters
    ----------
    draws : array-like of shape (T,) or (C, T)
        Numbers from one chain or from C chains of equal length.

    Returns
    -------
    float
        At most the number of draws, but for chains that alternate.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary.diagnostics import effective_sample_size
    >>> walk = np.cumsum(np.random.default_rng(0).standard_normal(1000))
    >>> effective_sample_size(walk) < 50
    True
    """
    halves = _halves(draws, "effective_sample_size")
    length = halves.shape[1]
    covariances = np.array([_autocovariances(half) for half in halves])
    within = float(covariances[:, 0].mean()) * length / (length - 1.0)
    total = within * (length - 1.0) / length + float(halves.mean(axis=1).var(ddof=1))
    if total == 0.0:
        return float(halves.size)
    correlations = 1.0 - (within - covariances.mean(axis=0) * length / (length - 1.0)) / total
    correlations[0] = 1.0
    pairs = correlations[: length // 2 * 2].reshape(-1, 2).sum(axis=1)
    is_negative = pairs <= 0.0
    pairs = pairs[: int(np.argmax(is_negative)) if is_negative.any() else len(pairs)]
    time = max(2.0 * float(np.minimum.accumulate(pairs).sum()) - 1.0, 1.0 / np.log10(max(halves.size, 10)))
    return float(min(halves.size / time, halves.size * np.log10(max(halves.size, 10))))


def _halves(draws: ArrayLike, who: str) -> Float64Array:
    chains = np.atleast_2d(check_numbers(draws, "draws", who))
    if chains.ndim != 2 or chains.shape[1] < 4:
        raise InputError(
            f"`draws` of {who} must be one number per draw, of shape (chains, draws) with at least 4 draws; "
            f"got shape {chains.shape}. Run the chains for longer."
        )
    half = chains.shape[1] // 2
    return np.concatenate([chains[:, :half], chains[:, -half:]])


def _autocovariances(series: Float64Array) -> Float64Array:
    """Biased autocovariances (T,) by the fast Fourier transform."""
    n = len(series)
    spectrum = np.fft.rfft(series - series.mean(), 2 * n)
    return np.asarray(np.fft.irfft(np.abs(spectrum) ** 2, 2 * n)[:n] / n)
