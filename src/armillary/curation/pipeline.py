"""Curation from end to end: levels, nearest clusters, near-duplicates, an even sample; resumable, into one folder.

Stages, each in pieces that are remembered (`work.py`): steps of k-means on some rows; one pass over all rows, a stretch
at a time; clusters, some at a time, within and then across their borders; the measured recall. A run that was killed at
any moment does no finished piece again, and ends with the same files.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary import __version__
from armillary.curation.covering import Coverage, coverage
from armillary.curation.duplicates import (
    Borders,
    Duplicates,
    Gone,
    Pairs,
    Search,
    check_threshold,
    counted_pairs,
    most_searched,
    nearest_borders,
    priority_order,
)
from armillary.curation.nearest import Nearest, nearest_of
from armillary.curation.sampling import balanced_sample
from armillary.curation.work import Work, told_apart
from armillary.engines.contract import Between, Passes
from armillary.engines.select import checked_points, open_passes
from armillary.exceptions import InputError
from armillary.files.folders import SUMMARY, held_folder
from armillary.files.row_tables import write_row_table
from armillary.models.means.hierarchical_spherical_kmeans import HierarchicalSphericalKMeans, fit_remembered
from armillary.models.means.spherical_kmeans import SphericalKMeans
from armillary.persistence.archive import save
from armillary.validation import check_choice, check_integer, check_levels
from armillary.workers import Workers, thread_count

_WHO = "curate"
# Rows of one stretch of the pass over all rows.
_STRETCH_ROWS = 1 << 17

Told = Callable[[str, int, int], None]


@dataclass(frozen=True)
class CurationPlan:
    """What to do.

    Parameters
    ----------
    n_clusters : sequence of int, default=(100, 1000)
        Clusters of each level, coarse to fine.
    threshold : float, default=0.95
        Rows whose cosine is at least this are near-duplicates.
    keep : {"first", "central"}, default="first"
        Which of them stays: that of the lowest number, or that nearest to its cluster.
    n_sample : int or None, default=None
        Rows of the even sample; None takes a tenth of what deduplication keeps.
    n_nearest : int, default=4
        Nearest clusters written for each row.
    n_searched : int or None, default=None
        Most clusters that a row is compared with. None: all that a near row may be in for up to 20,000 rows, 8 beyond.
    n_fit_rows : int or None, default=1000000
        Rows that steps are done on.
    n_resamples, max_iter : int, default=3 and 20
        Of `HierarchicalSphericalKMeans`.
    n_recall_rows : int, default=500
        Rows that are compared with all others to measure what was missed; 0 measures nothing.
    random_state : int, default=0
        Seed.

    Examples
    --------
    >>> from armillary.curation import CurationPlan
    >>> CurationPlan(n_clusters=(10, 100), threshold=0.98).checked(n_rows=5_000).keep
    'first'
    """

    n_clusters: Sequence[int] = (100, 1000)
    threshold: float = 0.95
    keep: str = "first"
    n_sample: int | None = None
    n_nearest: int = 4
    n_searched: int | None = None
    n_fit_rows: int | None = 1_000_000
    n_resamples: int = 3
    max_iter: int = 20
    n_recall_rows: int = 500
    random_state: int = 0

    def checked(self, n_rows: int) -> CurationPlan:
        """The plan, or an error that names the wrong value; a lower number of clusters is not chosen by itself.

        Parameters
        ----------
        n_rows : int
            Rows that it is for.

        Returns
        -------
        CurationPlan
            The same plan.
        """
        sizes = check_levels(self.n_clusters, _WHO)
        n_fit_rows = None if self.n_fit_rows is None else check_integer(self.n_fit_rows, "n_fit_rows", _WHO, low=1)
        n_searched = None if self.n_searched is None else check_integer(self.n_searched, "n_searched", _WHO, low=1)
        n_sample = None if self.n_sample is None else check_integer(self.n_sample, "n_sample", _WHO, low=1)
        found = replace(
            self,
            n_clusters=sizes,
            threshold=check_threshold(self.threshold, _WHO),
            keep=check_choice(self.keep, "keep", _WHO, ("first", "central")),
            n_sample=n_sample,
            n_nearest=check_integer(self.n_nearest, "n_nearest", _WHO, low=1),
            n_searched=most_searched(n_searched, n_rows, max(sizes)),
            n_fit_rows=n_fit_rows,
            n_resamples=check_integer(self.n_resamples, "n_resamples", _WHO, low=0),
            max_iter=check_integer(self.max_iter, "max_iter", _WHO, low=1),
            n_recall_rows=check_integer(self.n_recall_rows, "n_recall_rows", _WHO, low=0),
            random_state=check_integer(self.random_state, "random_state", _WHO, low=0),
        )
        n_fitted = n_rows if n_fit_rows is None else min(n_fit_rows, n_rows)
        if max(sizes) > n_fitted:
            raise InputError(
                f"`n_clusters` of {_WHO} must not exceed the rows that steps are done on; got {max(sizes)} clusters "
                f"and {n_fitted} rows. Give fewer, e.g. n_clusters=({max(1, n_fitted // 100)},)."
            )
        return found


@dataclass(frozen=True, eq=False)
class Curation:
    """What was found, for a report."""

    plan: CurationPlan
    model: HierarchicalSphericalKMeans
    labels: npt.NDArray[np.int64]  # (n,) at the finest level
    angles: npt.NDArray[np.float32]  # (n,) to the own cluster
    duplicates: Duplicates
    sample: npt.NDArray[np.int64]  # numbers of rows
    recall: float | None
    recall_pairs: int | None  # that it was measured on
    coverages: Mapping[str, list[Coverage]]
    summary: Mapping[str, Any]


def curate(
    X: Any,
    folder: str | os.PathLike[str],
    plan: CurationPlan | None = None,
    *,
    ids: Sequence[str] | Sequence[int] | None = None,
    n_threads: int | None = None,
    force: bool = False,
    tell: Told | None = None,
    report: Callable[[Path, Curation], None] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Deduplicate and balance rows: levels of clusters, near-duplicates, an even sample, in a folder.

    The folder has `rows.parquet` (row, id, cluster at each level, nearest clusters with angles in degrees, whether a
    row is kept and for which it went, whether it is in the sample), `sample.npy` (numbers of rows), `model.safetensors`
    and `summary.json`; all of it or nothing. A run that was killed and is started again with the same rows and plan
    goes on from what it had done, and ends with the same files. Files of rows are known by name, size and time, other
    rows by sums of all of them and by 4,096 of them.

    Parameters
    ----------
    X : array-like of shape (n, D), CSR or rows on disk
        Rows, made unit here.
    folder : path
        Where results go.
    plan : CurationPlan or None, default=None
        What to do.
    ids : sequence of str or int, or None, default=None
        Names of the rows, written beside their numbers as they are.
    n_threads : int or None, default=None
        Threads; None takes every core. Results do not depend on it.
    force : bool, default=False
        Replace earlier results.
    tell : callable or None, default=None
        Called with (stage, number of pieces done, number of pieces) as work goes on.
    report : callable or None, default=None
        Called with a path for report.html and what was found, before the folder is moved into place.
    facts : mapping or None, default=None
        More entries of summary.json.

    Returns
    -------
    dict
        What `summary.json` has.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from armillary.curation import CurationPlan, curate
    >>> rows = np.random.default_rng(0).standard_normal((500, 20))
    >>> rows[400:] = rows[:100] + 0.01
    >>> with tempfile.TemporaryDirectory() as place:
    ...     found = curate(rows, f"{place}/curated", CurationPlan(n_clusters=(2, 10), n_sample=50))
    >>> found["duplicates"]["removed"], found["sample"]["rows"]
    (100, 50)
    """
    points = checked_points(X, _WHO)
    if plan is not None and not isinstance(plan, CurationPlan):
        raise InputError(
            f"`plan` of {_WHO} must be a CurationPlan or None; got {type(plan).__name__}. Make one: "
            "CurationPlan(n_clusters=(100, 1000))."
        )
    wanted = (plan or CurationPlan()).checked(points.n_rows)
    _check_ids(ids, points.n_rows)
    clock = _Clock()
    with held_folder(folder) as place, place.whole(force=force) as new:
        with open_passes(points, n_threads, _WHO) as passes:
            # no piece depends on how many rows are chosen in the end
            plan_of_pieces = {**asdict(wanted), "n_sample": None}
            question = {"armillary": __version__, "plan": plan_of_pieces, **told_apart(X, passes)}
            work = Work.beside(place.target, question)
            found = _found(X, passes, wanted, work, n_threads, tell or _silent, clock)
        found = replace(found, summary=_summary(found, points.n_rows, points.n_features, facts))
        _write(new, found, work, ids)
        if report is not None:
            report(new / "report.html", found)
        seconds = {**clock.seconds, "pieces_known": work.n_known, "pieces_made": work.n_made}
        with open(new / SUMMARY, "w") as stream:
            stream.write(json.dumps(found.summary, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    work.remove()
    return {**found.summary, "seconds": seconds}


def _check_ids(ids: Any, n_rows: int) -> None:
    if ids is None:
        return
    if len(ids) != n_rows:
        raise InputError(f"`ids` of {_WHO} must name each of the {n_rows} rows; got {len(ids)}. Leave them out.")
    if isinstance(ids, list | tuple):
        kinds = {type(one) for one in ids}
        is_one_kind = all(issubclass(kind, str) for kind in kinds) or all(issubclass(kind, int) for kind in kinds)
        if not is_one_kind:
            came = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise InputError(f"`ids` of {_WHO} must all be words or all be whole numbers; got {came}. Convert them.")


def _silent(stage: str, n_done: int, n_pieces: int) -> None:
    """Nobody listens."""


class _Clock:
    """Seconds of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def note(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage] = round(now - self._last, 2)
        self._last = now


# ---------------------------------------------------------------------------------------------------------- stages


def _found(
    X: Any, passes: Passes, plan: CurationPlan, work: Work, n_threads: int | None, tell: Told, clock: _Clock
) -> Curation:
    # passes look at rows on disk, and steps see some: one without a direction would end the run after all of them
    work.known("looked", lambda: {"n_rows": int(passes.sum(None, 1).counts[0])})
    model = _fitted(X, plan, work, n_threads, tell)
    clock.note("levels")
    spans = _stretches(passes.points.n_rows)
    _passed(passes, spans, model, plan, work, tell)
    clock.note("pass")
    stretches = _Stretches(work, len(spans), plan)
    angles = np.concatenate([one.angles[:, 0] for one in stretches.nearest()])
    with Workers(thread_count(n_threads, _WHO)) as workers:
        duplicates, labels = _duplicates(passes, stretches, angles, model, plan, work, workers, tell)
    clock.note("duplicates")
    recall, recall_pairs = _recall(X, duplicates, plan, work, n_threads)
    clock.note("recall")
    is_kept = duplicates.is_kept
    n_sample = max(1, int(is_kept.sum()) // 10) if plan.n_sample is None else plan.n_sample
    sample = balanced_sample(model, n_sample, labels=labels, among=is_kept, random_state=plan.random_state)
    draws = np.random.default_rng(plan.random_state)
    random = np.sort(draws.choice(np.flatnonzero(is_kept), min(n_sample, int(is_kept.sum())), replace=False))
    flat = _flat_sample(labels, is_kept, n_sample, model, plan)
    coverages = {
        "all rows": coverage(model, labels=labels),
        "kept": coverage(model, labels=labels, among=is_kept),
        "sample": coverage(model, labels=labels, among=sample),
        "random sample": coverage(model, labels=labels, among=random),
        "sample from the finest level alone": coverage(model, labels=labels, among=flat),
    }
    clock.note("sample")
    return Curation(plan, model, labels, angles, duplicates, sample, recall, recall_pairs, coverages, {})


def _flat_sample(labels: Any, is_kept: Any, n_sample: int, model: Any, plan: CurationPlan) -> Any:
    """What k-means without levels gives: even over the finest clusters alone."""
    flat = SphericalKMeans()
    flat.cluster_centers_ = model.cluster_centers_
    return balanced_sample(flat, n_sample, labels=labels, among=is_kept, random_state=plan.random_state)


def _fitted(X: Any, plan: CurationPlan, work: Work, n_threads: int | None, tell: Told) -> HierarchicalSphericalKMeans:
    n_runs = len(tuple(plan.n_clusters)) * (1 + plan.n_resamples)
    model = HierarchicalSphericalKMeans(
        plan.n_clusters,
        n_resamples=plan.n_resamples,
        n_fit_rows=plan.n_fit_rows,
        max_iter=plan.max_iter,
        random_state=plan.random_state,
        n_threads=n_threads,
        callbacks=lambda event: tell("levels", event.restart, n_runs),
    )
    fitted = fit_remembered(model, X, work, labels_all=False)
    return fitted.set_params(callbacks=None, n_threads=None)


def _stretches(n_rows: int) -> list[tuple[int, int]]:
    return [(first, min(first + _STRETCH_ROWS, n_rows)) for first in range(0, n_rows, _STRETCH_ROWS)]


def _passed(
    passes: Passes,
    spans: Sequence[tuple[int, int]],
    model: HierarchicalSphericalKMeans,
    plan: CurationPlan,
    work: Work,
    tell: Told,
) -> None:
    """The one pass over all rows: the nearest clusters of each."""
    most = max(plan.n_nearest, _searched(plan) + 1)
    for number, (first, last) in enumerate(spans):

        def make(first: int = first, last: int = last) -> dict[str, Any]:
            return nearest_of(passes.over(Between(first, last)), model.cluster_centers_, most)._asdict()

        work.known(_stretch(number), make)
        tell("pass", number + 1, len(spans))


def _searched(plan: CurationPlan) -> int:
    assert plan.n_searched is not None, "a plan that was checked has a number"
    return plan.n_searched


def _stretch(number: int) -> str:
    return f"nearest-{number}"


@dataclass(frozen=True)
class _Stretches:
    """What the pass found, a stretch at a time from its files: of many rows it would not fit into memory."""

    work: Work
    n_stretches: int
    plan: CurationPlan

    def nearest(self) -> Iterator[Nearest]:
        """Nearest clusters."""
        for number in range(self.n_stretches):
            found = self.work.look(_stretch(number))
            assert found is not None, "the pass is over"
            yield Nearest(**found)

    def __iter__(self) -> Iterator[Borders]:
        n_searched = _searched(self.plan)
        return (nearest_borders(one, self.plan.threshold, n_searched) for one in self.nearest())


def _duplicates(
    passes: Passes,
    stretches: _Stretches,
    angles: npt.NDArray[np.float32],
    model: HierarchicalSphericalKMeans,
    plan: CurationPlan,
    work: Work,
    workers: Workers,
    tell: Told,
) -> tuple[Duplicates, npt.NDArray[np.int64]]:
    """Near-duplicates, and the cluster of each row."""
    ranks = priority_order(None if plan.keep == "first" else -angles, len(angles), _WHO)
    search = Search.joined(stretches, plan.threshold, ranks, len(model.cluster_centers_))
    groups = search.groups(passes.points.n_features)
    gone = _in_pieces("within", Gone, groups, lambda group: search.within(passes, group, workers), work, tell)
    settled = search.settled(gone)
    groups = settled.groups(passes.points.n_features)
    pairs = _in_pieces("across", Pairs, groups, lambda group: settled.across(passes, group, workers), work, tell)
    return settled.result(pairs), search.labels.astype(np.int64)


def _in_pieces(
    stage: str, kind: Any, groups: Sequence[tuple[int, int]], make: Callable[..., Any], work: Work, tell: Told
) -> list[Any]:
    found = []
    for number, group in enumerate(groups):
        found.append(kind(**work.known(f"{stage}-{number}", lambda group=group: make(group)._asdict())))
        tell(f"duplicates {stage}", number + 1, len(groups))
    return found


def _recall(
    X: Any, duplicates: Duplicates, plan: CurationPlan, work: Work, n_threads: int | None
) -> tuple[float | None, int | None]:
    """The measured recall, and the near pairs that it was measured on."""
    if plan.n_recall_rows == 0:
        return None, None

    def make() -> dict[str, int]:
        n_pairs, n_missed = counted_pairs(X, duplicates, plan.n_recall_rows, plan.random_state, n_threads, _WHO)
        return {"n_pairs": n_pairs, "n_missed": n_missed}

    known = work.known("recall", make)
    n_pairs = int(known["n_pairs"])
    return (1.0 - int(known["n_missed"]) / n_pairs if n_pairs else 1.0), n_pairs


# --------------------------------------------------------------------------------------------------------- results


def _write(folder: Path, found: Curation, work: Work, ids: Any) -> None:
    save(found.model, folder / "model.safetensors")
    np.save(folder / "sample.npy", found.sample)
    write_row_table(folder / "rows.parquet", _columns(found, work, ids), _WHO)


def _columns(found: Curation, work: Work, ids: Any) -> Iterator[dict[str, Any]]:
    """Columns of each stretch of rows."""
    model, duplicates = found.model, found.duplicates
    levels = [model.ancestors(level) for level in range(len(model.level_sizes_))]
    is_kept = duplicates.is_kept
    is_sampled = np.zeros(len(found.labels), dtype=np.bool_)
    is_sampled[found.sample] = True
    for number, (first, last) in enumerate(_stretches(len(found.labels))):
        part, nearest = slice(first, last), work.look(_stretch(number))
        assert nearest is not None
        columns: dict[str, Any] = {"row": np.arange(first, last)}
        if ids is not None:
            columns["id"] = ids[first:last]
        for level, ancestors in enumerate(levels):
            columns[f"cluster_{level}"] = ancestors[found.labels[part]].astype(np.int32)
        for place in range(min(found.plan.n_nearest, nearest["clusters"].shape[1])):
            columns[f"nearest_{place + 1}"] = nearest["clusters"][:, place]
            columns[f"degrees_{place + 1}"] = np.degrees(nearest["angles"][:, place])
        columns["is_kept"] = is_kept[part]
        columns["kept_row"] = duplicates.kept_for[part]
        columns["kept_cosine"] = duplicates.cosines[part]
        columns["is_sampled"] = is_sampled[part]
        yield columns


def _summary(found: Curation, n_rows: int, n_features: int, facts: Mapping[str, Any] | None) -> dict[str, Any]:
    plan, duplicates = found.plan, found.duplicates
    groups = duplicates.groups(1)
    return {
        "armillary": __version__,
        **(facts or {}),
        "plan": {**asdict(plan), "n_clusters": list(plan.n_clusters)},
        "rows": n_rows,
        "columns": n_features,
        "levels": [int(size) for size in found.model.level_sizes_],
        "mean_degrees": round(math.degrees(float(found.angles.mean(dtype=np.float64))), 4),
        "duplicates": {
            "threshold": plan.threshold,
            "removed": duplicates.n_removed,
            "kept": n_rows - duplicates.n_removed,
            "largest_group": len(groups[0]) if groups else 0,
            "is_exact": duplicates.is_exact,
            "rows_searched_in_part": duplicates.n_truncated,
            "recall": found.recall,
            "recall_pairs": found.recall_pairs,
            "chained": duplicates.n_chained,
        },
        "sample": {"rows": len(found.sample)},
        "coverage": {name: [asdict(one) for one in levels] for name, levels in found.coverages.items()},
    }
