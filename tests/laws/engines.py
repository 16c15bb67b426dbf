"""The engines that laws of passes are held against: the one list of them."""

import tempfile
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from tests.gpu.here import has_cuda
from tests.laws.lossy_workers import lossy_passes

from armillary import open_rows
from armillary.engines.partitioned import Partitioned
from armillary.engines.select import engine


@contextmanager
def one_piece(name, rows, weights=None, n_threads=1):
    """Passes of an engine that takes arrays as they are."""
    home = engine(name)
    points = home.points(rows, "test", weights)
    with home.open(points, n_threads, "test") as passes:
        yield passes


def in_any_order(seed):
    """Work the parts in a random order, another one each time."""
    generator = np.random.default_rng(seed)

    def run(task, parts):
        results = [None] * len(parts)
        for number in generator.permutation(len(parts)):
            results[number] = task(int(number), parts[number])
        return results

    return run


@contextmanager
def reference(rows, weights=None, n_threads=1, seed=0):
    with one_piece("reference", rows, weights, n_threads) as passes:
        yield passes


@contextmanager
def cpu(rows, weights=None, n_threads=1, seed=0):
    with one_piece("cpu", rows, weights, n_threads) as passes:
        yield passes


@contextmanager
def partitioned(rows, weights=None, n_threads=1, seed=0):
    """Rows of the CPU cut at random, the parts worked in random order."""
    with one_piece("cpu", rows, weights, n_threads) as passes:
        yield cut_at_random(passes, seed)


@contextmanager
def chunks(rows, weights=None, n_threads=1, seed=0):
    """Rows on disk, in shards that are cut at random."""
    generator = np.random.default_rng([13, seed])
    edges = [0, *sorted(generator.integers(0, rows.shape[0], 3).tolist()), rows.shape[0]]
    with tempfile.TemporaryDirectory() as folder:
        for number, (start, stop) in enumerate(pairwise(edges)):
            if sp.issparse(rows):
                sp.save_npz(f"{folder}/{number}.npz", rows[start:stop], compressed=False)
            else:
                np.save(f"{folder}/{number}.npy", rows[start:stop])
        with one_piece("chunks", open_rows(folder), weights, n_threads) as passes:
            yield passes


@contextmanager
def workers(rows, weights=None, n_threads=1, seed=0):
    """Parts at workers, one in ten of whose answers never comes."""
    with lossy_passes(rows, weights, n_threads, seed) as passes:
        yield passes


def cut_at_random(passes, seed, most=6):
    generator = np.random.default_rng([11, seed])
    n_rows = passes.points.n_rows
    n_cuts = min(n_rows - 1, int(generator.integers(0, most)))
    edges = sorted(generator.choice(np.arange(1, n_rows), n_cuts, replace=False).tolist()) if n_cuts else []
    return Partitioned.cut(passes, [*edges, n_rows], in_any_order(seed))


@contextmanager
def cuda(rows, weights=None, n_threads=1, seed=0):
    """Rows on a GPU, or in Triton's interpreter."""
    with one_piece("cuda", rows, weights, n_threads) as passes:
        yield passes


@contextmanager
def cuda_parts(rows, weights=None, n_threads=1, seed=0):
    """Rows on a GPU cut at random, the parts worked in random order."""
    with cuda(rows, weights, n_threads) as passes:
        yield cut_at_random(passes, seed)


@contextmanager
def cuda_stream(rows, weights=None, n_threads=1, seed=0):
    """Rows on the host, as if a GPU had no room for them: four or five blocks."""
    from armillary.engines import cuda_sources

    n_bytes = 12 * rows.nnz if sp.issparse(rows) else rows.nbytes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda_sources, "free_bytes", lambda: 0)
        patch.setattr(cuda_sources, "BLOCK_BYTES", -(-n_bytes // 4))
        with one_piece("cuda", rows, weights, n_threads) as passes:
            yield passes


# name: a context manager (rows, weights, n_threads, seed) -> Passes; another engine adds a line here
ENGINES = {
    "reference": reference,
    "cpu": cpu,
    "partitioned": partitioned,
    "chunks": chunks,
    "workers": workers,
}
if has_cuda():
    ENGINES |= {"cuda": cuda, "cuda_parts": cuda_parts, "cuda_stream": cuda_stream}
