"""The model that needs no parameter: spherical k-means whose number of clusters and start are found from the rows.

Clusterings of the rows, or of a sample of many, are compared in `candidates.py`; the one taken there is the start of a
fit on all rows. Of many rows those that fit badly are looked at again (`small_clusters.py`).

Row order   matters to which rows are drawn for the comparison and its halves, and to ties

Why not the silhouette: of k-means on sentences and documents (Banking77, BBC, CNAE-9, k1a) it grows with the number of
clusters to the end of a grid up to 400, and modularity alone takes 20 clusters for the 4 subjects of AG News. Why not
k-means++: told the number, it cuts the large clusters of faces (10 to 530 rows) and merges the small ones, with an
adjusted Rand index of 0.4; from communities it has 0.99. `benchmarks/defaults.py` measures what comes out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from armillary._typing import ArrayLike, Callback, Float64Array, RandomState
from armillary.draws import Stream
from armillary.engines.select import open_passes
from armillary.exceptions import RowError
from armillary.fitting.events import Emitter
from armillary.models.estimator import all_observers, check_missing
from armillary.models.means.spherical_kmeans import SphericalKMeans
from armillary.points import Points, as_points, as_present_points, refuse_stored
from armillary.rules import AffineRule
from armillary.selection.candidates import (
    FEWEST_ROWS,
    LEAST_CLARITY,
    Candidate,
    Selection,
    compare_clusterings,
    most_steps,
)
from armillary.selection.choice import choice_html
from armillary.selection.counting import counted
from armillary.selection.small_clusters import MOST_ROUNDS, Fitted, Looked, groups_among, least_size
from armillary.validation import check_integer

# Rows that are compared at most: lists of neighbours cost n^2 D. 10,000 x 384 take two seconds of one core.
MOST_ROWS = 10_000

Refit = Callable[[Float64Array], SphericalKMeans]


@dataclass(frozen=True, eq=False)
class ModelChoice:
    """What `choose_model` took, and why: a `Choice`.

    `print` shows the comparison; `plots.plot_sweep(choice.table)` draws it.
    """

    model: SphericalKMeans  # fitted on all rows
    reason: str  # for people: what was compared, and why this was taken
    table: list[dict[str, Any]]  # what was compared: n_clusters, modularity, its ceiling, agreement, score, ...
    is_clear: bool  # whether the clusters are clearer than those of rows without any
    clarity: float  # from 0, as clear as such rows, to 1
    k_range: tuple[int, int]  # numbers of clusters that fit about as well
    selection: Selection  # the candidates themselves
    criterion: ClassVar[str] = "modularity x agreement"

    @property
    def best(self) -> int:
        """The number of the line of `table` that was taken."""
        return next(number for number, line in enumerate(self.table) if line["is_chosen"])

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return choice_html(self)

    def __str__(self) -> str:
        """One line for each number of clusters; the one taken is marked."""
        lines = [f"  {'clusters':>8}  {'modularity':>10}  {'at most':>7}  {'agreement':>9}  {'score':>6}"]
        for line in self.table:
            mark = ">" if line["is_chosen"] else " "
            lines.append(
                f"{mark} {line['n_clusters']:>8}  {line['modularity']:>10.3f}  {line['ceiling']:>7.3f}  "
                f"{line['agreement']:>9.3f}  {line['score']:>6.3f}"
            )
        return "\n".join(lines)


def choose_model(
    X: Any,
    *,
    sample_weight: ArrayLike | None = None,
    min_cluster_size: int | None = None,
    missing: str = "raise",
    random_state: RandomState = 0,
    n_threads: int | None = None,
    verbose: int = 0,
) -> ModelChoice:
    """Cluster the rows of X without a parameter: the number of clusters is found, and said why.

    Rows are linked with their nearest neighbours by cosine; communities of that graph, coarse to fine, are the starts
    of `SphericalKMeans`. Taken is the clustering with the highest product of modularity (rows have their neighbours in
    their own cluster) and agreement (models that are learned from each half of the rows give the same labels), over the
    root of the highest modularity that clusters of such sizes can have; or the coarsest within one standard error of
    it. Where rows without clusters come near to it, the answer is not clear: it is given all the same, and `is_clear`
    and `reason` say so.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n, D)
        Rows with a direction.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows in the fit. Rows of weight 0 take no part in the choice; how much others weigh does not
        matter to which of them are neighbours.
    min_cluster_size : int or None, default=None
        Beyond 10,000 rows, those that fit badly are looked at again for groups of at least so many; None is
        max(10, n / 20,000). Clusters that the comparison finds may be smaller.
    missing : {"raise", "flag"}, default="raise"
        Rows without a direction (NaN, infinities, all zero) are an error, or take no part and get the label -1.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the sample, of the halves and of the order in which communities are found.
    n_threads : int or None, default=None
        Threads; None takes every core. The result does not depend on it.
    verbose : int, default=0
        1 shows a progress bar over what is compared (needs the extra "progress").

    Returns
    -------
    choice : ModelChoice
        `choice.model` is fitted on X; `choice.is_clear` says whether to believe it, `choice.reason` why;
        `choice.k_range` are the numbers of clusters that fit about as well; `print(choice)` shows what was compared.

    Notes
    -----
    Beyond 10,000 rows the comparison is made on that many, drawn at random, and the model is then fitted on all, from
    the directions that were found. Clusters with fewer than about 10 of the compared rows are found when rows that fit
    badly are looked at again; the reason says what size cannot be seen.

    References
    ----------
    Blondel and others (2008), Fast unfolding of communities in large networks. Jarvis and Patrick (1973), shared near
    neighbours. Tibshirani and Walther (2005), Cluster validation by prediction strength.

    Examples
    --------
    >>> from armillary import choose_model
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, truth, _ = make_vmf_mixture(1000, 20, 7, concentration=60.0, random_state=0)
    >>> choose_model(X).model.n_clusters_
    7
    """
    who = "choose_model"
    if n_threads is not None:
        check_integer(n_threads, "n_threads", who, low=1, hint="None takes every core.")
    refuse_stored(X, who, "models are compared on a sample of it and fitted over and over")
    gate = as_present_points if check_missing(missing, who) else as_points
    try:
        points = replace(gate(X, who, sample_weight), is_present=None)
    except RowError as error:
        raise (error.or_flagged() if error.lacks_direction else error) from error
    size = check_min_size(min_cluster_size, points.n_rows, who)
    watching = all_observers(None, verbose, who)
    return find_model(points, Stream.of(random_state), watching, size, n_threads, X, sample_weight, missing)


def check_min_size(value: Any, n_rows: int, who: str) -> int:
    """The least size of a group that is looked for again."""
    if value is None:
        return least_size(n_rows)
    return check_integer(value, "min_cluster_size", who, low=2, hint="None is max(10, n / 20,000).")


def find_model(
    points: Points,
    stream: Stream,
    watching: tuple[Callback, ...],
    min_size: int,
    n_threads: int | None,
    X: Any,
    sample_weight: Any,
    missing: str,
) -> ModelChoice:
    """The choice for rows that have passed the gate; X is what they were made of."""
    compared = drawn_rows(points.counted(), stream)
    with (
        open_passes(compared, n_threads, points.who) as passes,
        Emitter(points.who, watching, n_rows=compared.n_rows, n_restarts=1, max_steps=most_steps()) as emitter,
    ):
        steps = iter(range(1, most_steps() + 1))

        def watch(one: Candidate) -> None:
            emitter.step(restart=1, step=next(steps, most_steps()), n_clusters=one.n_clusters, objective=one.score)

        selection = compare_clusterings(passes, stream, n_threads, watch)
        best = selection.best
        n_clusters, score = (1, 0.0) if best is None else (best.n_clusters, best.score)
        emitter.keep(restart=1, step=most_steps(), n_clusters=n_clusters, objective=score)

    def fitted(directions: Float64Array | None) -> SphericalKMeans:
        start: dict[str, Any] = {"random_state": 0} if directions is None else {"init": directions}
        size = 1 if directions is None else len(directions)
        model = SphericalKMeans(size, missing=missing, n_threads=n_threads, **start)
        return model.fit(X, sample_weight=sample_weight)

    def refitted(directions: Float64Array) -> SphericalKMeans:
        """Without clusters whose rows have all gone to new ones."""
        given = SphericalKMeans(len(directions), init=directions, empty_clusters="keep", max_iter=1, missing=missing)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            given.set_params(n_threads=n_threads).fit(X, sample_weight=sample_weight)
        return fitted(given.cluster_centers_[given.counts_ > 0])

    model = fitted(None if best is None else best.directions)
    looked = None
    if compared.n_rows < points.counted().n_rows and best is not None:
        model, looked = _look_again(points, model, refitted, min_size, stream, n_threads)
    n_found = len(np.unique(model.labels_[model.labels_ >= 0]))
    reason = _reason(selection, n_found, compared.n_rows, points.n_rows, looked)
    table = _table(selection)
    return ModelChoice(model, reason, table, selection.is_clear, selection.clarity, selection.k_range, selection)


def drawn_rows(points: Points, stream: Stream) -> Points:
    """All rows, or as many as are compared, in their order."""
    if points.n_rows <= MOST_ROWS:
        return points
    drawn = stream.generator("sample").choice(points.n_rows, MOST_ROWS, replace=False)
    return points.take(np.sort(drawn))


def as_fitted(points: Points, model: SphericalKMeans, n_threads: int | None) -> Fitted:
    """The rows with the clusters of a model, each row counted once."""
    directions = model.cluster_centers_
    plain = replace(points, weights=None)
    with open_passes(plain, n_threads, points.who) as passes:
        labels = passes.labels()
        rule = AffineRule.cosines(directions)
        sums = passes.label(rule, labels).sums
        cosines = np.asarray(passes.own(rule, labels).to_host(), dtype=np.float64)
        return Fitted(directions, labels.to_host(), cosines, sums.counts, sums.lengths)


def _look_again(
    points: Points, model: SphericalKMeans, refitted: Refit, min_size: int, stream: Stream, n_threads: int | None
) -> tuple[SphericalKMeans, Looked]:
    """The model with the small clusters that a sample did not show."""
    plain = points.counted()
    n_before, n_rounds, unseen = model.n_clusters_, 0, min_size
    for _ in range(MOST_ROUNDS):
        n_rounds += 1
        found, unseen = groups_among(plain, as_fitted(plain, model, n_threads), MOST_ROWS, min_size, stream, n_threads)
        if len(found) == 0:
            break
        model = refitted(np.concatenate([model.cluster_centers_, found]))
    return model, Looked(model.n_clusters_ - n_before, n_rounds, unseen)


# --------------------------------------------------------------------------------------------------------------- words


def _table(selection: Selection) -> list[dict[str, Any]]:
    """One cluster first, then every number of clusters once, with its best score."""
    candidates, best = selection.candidates, selection.best
    one: dict[str, Any] = {"resolution": 0.0, "modularity": 0.0, "ceiling": 0.0, "agreement": 1.0, "score": 0.0}
    lines = [{"model": "SphericalKMeans", "n_clusters": 1, **one, "is_chosen": best is None}]
    for n_clusters in sorted({candidate.n_clusters for candidate in candidates}):
        alike = [candidate for candidate in candidates if candidate.n_clusters == n_clusters]
        is_chosen = best is not None and n_clusters == best.n_clusters
        top = best if is_chosen and best is not None else max(alike, key=lambda one: (one.score, one.agreement))
        lines.append(
            {
                "model": "SphericalKMeans",
                "n_clusters": n_clusters,
                "resolution": top.resolution,
                "modularity": top.modularity,
                "ceiling": top.ceiling,
                "agreement": top.agreement,
                "score": top.score,
                "is_chosen": is_chosen,
            }
        )
    return lines


def _reason(selection: Selection, n_found: int, n_compared: int, n_rows: int, looked: Looked | None) -> str:
    """Why the model has the `n_found` clusters that rows are in."""
    if n_compared < FEWEST_ROWS:
        rows = "1 row is" if n_compared == 1 else f"{n_compared} rows are"
        return (
            f"One cluster: {rows} too few to tell clusters from chance, which takes {FEWEST_ROWS}. "
            "Give SphericalKMeans a number of clusters, or DPvMFMeans an angle."
        )
    which = f"{n_compared:,} of the {n_rows:,} rows" if n_compared < n_rows else f"the {n_rows:,} rows"
    best = selection.best
    if best is None:
        return (
            f"One cluster: no clear clusters were found in {which}. Rows that share neighbours make one community, or "
            "communities smaller than neighbours can tell. Give SphericalKMeans a number of clusters to cut the rows "
            "all the same."
        )
    numbers = [candidate.n_clusters for candidate in selection.candidates]
    said = (
        f"Spherical k-means with {n_found:,} clusters. {_verdict(selection)} Of {counted(len(numbers), 'clustering')} "
        f"of {which}, with {_span(numbers)} (communities of rows that share neighbours), it has "
        f"{_rank(selection)} {best.score:.2f}: rows have their neighbours in their own cluster (modularity "
        f"{best.modularity:.2f} of at most {best.ceiling:.2f}), and models learned from halves of the rows give the "
        f"same labels (agreement {best.agreement:.2f})."
    )
    low, high = selection.k_range
    if low < high:
        said += f" {low:,} to {high:,} clusters fit about as well."
    if len(numbers) > 1 and best.n_clusters == max(numbers) > min(numbers):
        said += " It is the finest of them: smaller clusters are not looked for, since neighbours would not see them."
    n_expected = best.n_clusters + (0 if looked is None else looked.n_found)
    if n_found != n_expected:
        said += f" The start had {n_expected:,} clusters; {n_expected - n_found:,} have no rows."
    if n_compared < n_rows:
        said += f" All {n_rows:,} rows were then fitted from the directions found."
    return said + ("" if looked is None else f" {_of_looking(looked)}")


def _span(numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return counted(low, "cluster") if low == high else f"{low:,} to {high:,} clusters"


def _verdict(selection: Selection) -> str:
    """Whether to believe it."""
    assert selection.best is not None
    scale = f"{selection.clarity:.2f} on a scale from 0, rows like these without clusters, to 1"
    close = " That is within chance of the border: another seed may say otherwise." if selection.is_close else ""
    if selection.is_clear:
        return f"They are clear: {scale}{f'; it takes {LEAST_CLARITY:.2f}' if close else ''}.{close}"
    return (
        f"They are not clear: rows like these without clusters have clusters nearly as clear ({scale}; it takes "
        f"{LEAST_CLARITY:.2f}).{close} This is the best cut all the same."
    )


def _rank(selection: Selection) -> str:
    top = max(one.score for one in selection.candidates)
    if selection.best is not None and selection.best.score == top:
        return "the highest modularity x agreement for its sizes,"
    return f"the fewest clusters within one standard error of the highest modularity x agreement ({top:.2f}),"


def _of_looking(looked: Looked) -> str:
    found = "no more clusters" if looked.n_found == 0 else counted(looked.n_found, "more cluster")
    return (
        f"Rows that fit badly were looked at again, {counted(looked.n_rounds, 'time')}: {found}. Groups of fewer than "
        f"about {looked.unseen:,} rows cannot be seen."
    )
