"""The chains of a sampler as pictures: the number of clusters and the log joint density after every sweep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary._typing import Float64Array
from armillary.exceptions import InputError
from armillary.plots.paper import INK, PALE_INK, plain_axes, quiet
from armillary.plots.sphere import PALETTE, _need_matplotlib, _new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Lines that differ without colour as well.
_DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)))
# What `trace_` of DirichletProcessMixture holds: the words on the axes, and the column.
_QUANTITIES = (("clusters", 0), ("log joint density", 2))


def plot_traces(model: Any, *, axes: Sequence[Axes] | None = None) -> list[Axes]:
    """Draw the number of clusters and the log joint density of a `DirichletProcessMixture` after every sweep.

    One line for each chain; sweeps of the warm-up and burn-in are on grey. Chains that agree lie on top of each other
    and wander without a trend. The log joint's axis is that of the sweeps after the burn-in, so that the first sweeps
    do not flatten the rest.

    Parameters
    ----------
    model : fitted DirichletProcessMixture
    axes : two matplotlib Axes, optional
        Plain 2-D axes to draw on, for the clusters and for the log joint. By default those of a new figure, one above
        the other, `axes[0].figure`.

    Returns
    -------
    axes : list of two matplotlib Axes

    Examples
    --------
    >>> from armillary import DirichletProcessMixture
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, _, _ = make_vmf_mixture(60, 3, 2, concentration=50.0, random_state=0)
    >>> model = DirichletProcessMixture("vmf", n_draws=5, n_burn_in=5, random_state=0).fit(X)
    >>> [ax.get_ylabel() for ax in plot_traces(model)]
    ['clusters', 'log joint density']
    """
    who = "plot_traces"
    _need_matplotlib(who)
    trace = _trace(model, who)
    n_discarded = int(getattr(model, "n_discarded_", 0))
    if axes is None:
        figure = _new_figure(7.2, 5.0)
        places: Sequence[Any] = [figure.add_axes((0.12, bottom, 0.85, 0.38)) for bottom in (0.57, 0.1)]
    else:
        places = list(axes)
        if len(places) != len(_QUANTITIES):
            raise InputError(
                f"`axes` of {who} must be two axes, for the clusters and for the log joint; got {len(places)}. "
                "Make them with figure.subplots(2)."
            )
    drawn = [plain_axes(ax, who, 7.2, 2.5) for ax in places]
    for number, (ax, (name, column)) in enumerate(zip(drawn, _QUANTITIES, strict=True)):
        _draw_chains(ax, trace[:, :, column], n_discarded, is_cut=number > 0)
        n_chains, n_sweeps = trace.shape[:2]
        title = f"{n_chains} chain{'' if n_chains == 1 else 's'}, {n_sweeps:,} sweeps" if number == 0 else ""
        quiet(ax, title=title, x="sweep" if number else "", y=name)
    return drawn


def _draw_chains(ax: Axes, values: Float64Array, n_discarded: int, *, is_cut: bool) -> None:
    from matplotlib.ticker import MaxNLocator

    n_sweeps = values.shape[1]
    sweeps = np.arange(1, n_sweeps + 1)
    if 0 < n_discarded <= n_sweeps:
        ax.axvspan(0.5, n_discarded + 0.5, color=PALE_INK, alpha=0.18, linewidth=0.0)
    for chain, line in enumerate(values):
        ax.plot(
            sweeps, line, color=PALETTE[chain % len(PALETTE)], linestyle=_DASHES[chain % len(_DASHES)], linewidth=1.1
        )
    ax.set_xlim(0.5, n_sweeps + 0.5)
    kept = values[:, n_discarded:]
    if is_cut and kept.size:
        low, high = float(kept.min()), float(kept.max())
        margin = max(0.5 * (high - low), 1e-3 * abs(high), 1e-9)
        ax.set_ylim(max(low - margin, float(values.min()) - 0.1 * margin), high + 0.3 * margin)
    if not is_cut:
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.axhline(np.median(kept) if kept.size else np.nan, color=INK, linewidth=0.7, linestyle=(0, (1, 3)))


def _trace(model: Any, who: str) -> Float64Array:
    trace: Any = getattr(model, "trace_", None)
    if trace is None or np.ndim(trace) != 3 or np.shape(trace)[2] < 3:
        raise InputError(
            f"`model` of {who} must be a fitted DirichletProcessMixture, which has a trace_; got "
            f"{type(model).__name__}. Fit it first."
        )
    return np.asarray(trace, dtype=np.float64)
