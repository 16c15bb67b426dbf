"""Workers within this process that are lost now and then: before they begin, or when all is done but the answer."""

import threading
from contextlib import contextmanager, nullcontext
from itertools import pairwise

import numpy as np

from armillary.engines import dealt
from armillary.engines.contract import UNIT, Gate
from armillary.engines.dealt import Crew, DealtEngine, PartOpening, checked_rows, opened_parts
from armillary.engines.executors import Here, StationLostError
from armillary.engines.select import register


class LossyStation:
    """A desk that is new after a loss."""

    def __init__(self, rows, seed, share):
        self._rows, self._share = rows, share
        self._generator = np.random.default_rng(seed)
        self._desk = Here(rows)
        self._is_over = False

    def ask(self, message):
        if self._is_over:  # a part that failed ends the others, of which one may just ask again
            raise StationLostError
        chance = self._generator.random()
        if chance < self._share / 2:
            self._lose()
        answer = self._desk.ask(message)
        if chance > 1.0 - self._share / 2:
            self._lose()
        return answer

    def _lose(self):
        self._desk.close()
        self._desk = Here(self._rows)
        raise StationLostError

    def close(self):
        self._is_over = True
        self._desk.close()


class LossyWorkers:
    """Stations over parts that lie here."""

    def __init__(self, seed=0, share=0.1):
        self.rows, self._seed, self._share = [], seed, share

    @contextmanager
    def stations(self, n_parts):
        stations = [LossyStation(rows, [self._seed, number], self._share) for number, rows in enumerate(self.rows)]
        try:
            yield stations
        finally:
            for station in stations:
                station.close()


class Lossy:
    """Rows for such workers."""

    def __init__(self, rows, n_workers, seed=0, share=0.1):
        self.rows, self.n_workers, self.seed, self.share = rows, n_workers, seed, share
        self.shape = rows.shape


class LossyEngine(DealtEngine):
    """An engine of such rows."""

    name = "lossy"

    def points(self, X, who, sample_weight=None, expected_features=None, gate: Gate = UNIT):
        return checked_rows(X, X.shape, X.rows.dtype, self.name, who, sample_weight, expected_features, gate)

    def workers(self, points, n_threads):
        return nullcontext(Crew(LossyWorkers(points.rows.seed, points.rows.share), points.rows.n_workers, n_threads))

    def rows_of(self, points, spans, executor):
        executor.rows = [points.rows.rows[first:last] for first, last in spans]
        return [None] * len(spans)


def register_lossy():
    """Make the engine known."""
    register("lossy", __name__, "LossyEngine", kinds=(f"{__name__}.Lossy",))


@contextmanager
def lossy_passes(rows, weights, n_threads, seed):
    """Passes over parts that are cut anywhere, at workers that are lost now and then, answers in any order."""
    generator = np.random.default_rng([17, seed])
    n_rows = rows.shape[0]
    edges = [0, *sorted(set(generator.integers(1, n_rows, 3).tolist())), n_rows]
    points = dealt.dealt_points(
        rows, rows.shape, rows.dtype, weights, "lossy", "test", is_sparse=not isinstance(rows, np.ndarray)
    )
    openings, workers = [], LossyWorkers(seed)
    for first, last in pairwise(edges):
        own = None if weights is None else weights[first:last]
        openings.append(PartOpening(None, first, None, own, points.q, "test", n_threads))
        workers.rows.append(rows[first:last])
    with opened_parts(workers, openings, points) as passes:
        yield passes


def shuffled_arrival(monkeypatch, seed):
    """Let answers of parts come in a random order: each waits for its turn. Workers start side by side."""
    generator = np.random.default_rng(seed)

    def side_by_side(pool):
        are_open = False

        def run(task, parts):
            nonlocal are_open
            if not are_open:
                are_open = True
                return list(pool.map(task, range(len(parts)), parts))
            order = generator.permutation(len(parts)).tolist()
            turns = [threading.Event() for _ in [*parts, None]]
            turns[0].set()

            def one(number, part):
                place = order.index(number)
                turns[place].wait()
                try:
                    return task(number, part)
                finally:
                    turns[place + 1].set()

            return list(pool.map(one, range(len(parts)), parts))

        return run

    monkeypatch.setattr(dealt, "SideBySide", side_by_side)
