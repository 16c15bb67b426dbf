"""CSR rows on a GPU: the gate, and passes over rows that are mostly zeros.

They come from SciPy, or from the device as torch's or CuPy's CSR. The structure is checked before a kernel sees an
index (`sparse_structure.py`): on the device where rows came from there, and by SciPy's words where something is odd.
Labels and sums have the CPU's bits; shares agree to 1e-9 of the total weight, and are summed in one order.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch

from armillary._typing import Float64Array
from armillary.engines.contract import Gate
from armillary.engines.cuda import CudaPasses
from armillary.engines.cuda_points import CudaPoints, from_device, given_weights, refuse_all_missing
from armillary.exceptions import InputError
from armillary.kernels.gpu import start, start_sparse
from armillary.kernels.gpu.start_sparse import CsrRows
from armillary.points import Block, SparseBlock, as_csr
from armillary.rules import AffineRule
from armillary.sources.stored import StoredRows
from armillary.validation import (
    PLAIN_SQUARES,
    UNIT_TOLERANCE,
    as_matrix,
    check_shape,
    has_direction,
    refuse_rows,
    safe_factors,
    stored_squares,
    unit_block,
)

_SPARSE_LAYOUTS = (torch.sparse_csr, torch.sparse_coo, torch.sparse_csc)
_FLOATS = {np.dtype(np.float32): torch.float32, np.dtype(np.float64): torch.float64}


class SparsePasses(CudaPasses):
    """Passes over CSR rows; see `engines/contract.py`."""

    on = start_sparse

    @cached_property
    def _parts_held(self) -> dict[tuple[int, int], CsrRows]:
        return {}

    @property
    def chooser(self) -> start.Chooser:
        """Labels by a rule."""
        return start_sparse.Chooser(cast(Any, self.points.matrix), None, self.points.scratch)

    def _of(self, points: CudaPoints) -> SparsePasses:
        return SparsePasses(points)

    def _rows_of(self, part: slice) -> Any:
        """Some rows, the same every time: they know their columns."""
        span = (part.start, part.stop)
        if span == (0, self.points.n_rows):
            return self.points.matrix
        if span not in self._parts_held:
            self._parts_held[span] = cast(Any, self.points.matrix)[part]
        return self._parts_held[span]

    def _soft_parts(self, n_clusters: int, most: int | None = None) -> Iterator[slice]:
        """Rows that are shared together: their entries are not copied."""
        return self._parts(n_clusters, most)

    def _is_float32(self, rule: AffineRule) -> bool:
        """Scores of a softmax of sparse rows are float64, as on the CPU."""
        return False

    def _soft_table(self, rows: Any, rule: start.DeviceRule) -> torch.Tensor:
        return start_sparse.table(rows, rule, torch.float64)

    def _shared(self, shares: torch.Tensor, rows: Any) -> torch.Tensor:
        return start_sparse.shared_sums(rows, shares)

    def unit_rows(self, numbers: npt.ArrayLike) -> Float64Array:
        """A few rows (m, D), dense and of unit length in float64."""
        return dense_unit_rows(self.rows(np.asarray(numbers, np.int64)).block, self.points.who)


def dense_unit_rows(block: Block, who: str) -> Float64Array:
    """A few rows of the host (m, D), dense and of unit length in float64."""
    rows = as_csr(block).toarray() if isinstance(block, SparseBlock) else block
    return np.asarray(unit_block(np.asarray(rows, dtype=np.float64), 0, who))


# ------------------------------------------------------------------------------------------------------ the gate


def csr_points(X: Any, who: str, sample_weight: Any, expected_features: int | None, gate: Gate) -> Any:
    """CSR rows and weights through the gate, on the device, or block by block; None for rows that are not sparse."""
    if not _is_sparse(X) or gate.kind == "counts":
        return None
    if isinstance(X, StoredRows):
        if X.weights is not None and sample_weight is not None:
            raise InputError(
                f"Weights of {who} must come from one place; got `sample_weight` and rows on disk that have weights. "
                "Open them without `weights`, or leave `sample_weight` out."
            )
        sample_weight = X.weights if sample_weight is None else sample_weight
        X = X[:]
    rows = None if _is_at_home(X) or gate.allows_missing else _from_device(X, who, expected_features)
    if rows is not None:
        weights = given_weights(sample_weight, len(rows), who, gate)
        return CudaPoints(cast(Any, unit_csr(rows, who)), None if weights is None else start.to_device(weights), who)
    matrix: Any = as_matrix(X if sp.issparse(X) else _home(X, who), who, expected_features)
    weights, is_present = given_weights(sample_weight, matrix.shape[0], who, gate), None
    if gate.allows_missing and not (found := has_direction(matrix)).all():
        is_present = found
        matrix = matrix[is_present]
        weights = None if weights is None else weights[is_present]
        if not matrix.shape[0] and not gate.allows_empty:
            refuse_all_missing(len(is_present), who)
    # that module knows this one's passes
    stream: Any = importlib.import_module("armillary.engines.cuda_stream")
    return stream.host_csr(matrix, weights, who, is_present)


def _is_sparse(X: Any) -> bool:
    if isinstance(X, StoredRows):
        return X.is_sparse
    if isinstance(X, torch.Tensor):
        return X.layout in _SPARSE_LAYOUTS
    return sp.issparse(X) or type(X).__module__.startswith("cupyx.")


def _is_at_home(X: Any) -> bool:
    """Whether sparse rows are the host's, in whose memory they stay where the device has no room for them."""
    return sp.issparse(X) or (isinstance(X, torch.Tensor) and X.device.type == "cpu" and not start.IS_INTERPRETED)


def _triple(X: Any, who: str) -> tuple[torch.Tensor, ...]:
    """Values, indices and pointers of what is on the device."""
    if isinstance(X, torch.Tensor):
        csr = X.detach() if X.layout == torch.sparse_csr else X.detach().to_sparse_csr()
        return csr.values(), csr.col_indices(), csr.crow_indices()
    csr = X.tocsr()
    return tuple(cast(torch.Tensor, from_device(part, who)) for part in (csr.data, csr.indices, csr.indptr))


def _home(X: Any, who: str) -> Any:
    """What is on the device as SciPy's CSR."""
    data, indices, pointers = _triple(X, who)
    if data.dtype in (torch.float16, torch.bfloat16):  # SciPy has neither
        data = data.float()
    data, indices, pointers = (part.cpu().numpy() for part in (data, indices, pointers))
    found = sp.csr_array((len(pointers) - 1, int(X.shape[1])), dtype=data.dtype)
    # put in place: SciPy would look at indices with compiled code before they are checked
    found.data, found.indices, found.indptr = data, indices, pointers
    return found


def _from_device(X: Any, who: str, expected_features: int | None) -> CsrRows | None:
    """Rows that are on the device, where they are as kernels take them; None where SciPy has to look."""
    if isinstance(X, torch.Tensor) and X.ndim != 2:
        raise InputError(
            f"X of {who} must be a 2-D array, one row per vector; got {X.ndim}-D of shape {tuple(X.shape)}. Reshape "
            "your data."
        )
    data, indices, pointers = (part.to(start.device()) for part in _triple(X, who))
    n_rows, n_features = (int(size) for size in X.shape)
    if not data.is_floating_point() or n_rows == 0:
        return None
    check_shape((n_rows, n_features), who, expected_features)
    pointers = pointers.long()
    lengths = torch.diff(pointers)
    ends = int(pointers[0]), int(pointers[-1])
    if ends != (0, len(indices)) or len(data) != len(indices) or bool((lengths < 0).any()):
        return None
    if len(indices):
        is_first = torch.zeros(len(indices), dtype=torch.bool, device=indices.device)
        is_first[pointers[:-1][lengths > 0]] = True
        rises = is_first[1:] | (torch.diff(indices) > 0)
        inside = (indices >= 0) & (indices < n_features)
        if not (bool(rises.all()) and bool(inside.all())):
            return None
    kind = data.dtype if data.dtype in (torch.float32, torch.float64) else torch.float32
    return CsrRows(data.to(kind).contiguous(), indices.int().contiguous(), pointers.contiguous(), n_features)


def unit_csr(rows: CsrRows, who: str) -> CsrRows:
    """Rows made unit; those given where all are. See `validation.unit_matrix`, whose bits these are."""
    dtype = np.dtype(np.float32 if rows.dtype == torch.float32 else np.float64)
    squares = start_sparse.squares(rows)
    factors = torch.ones_like(squares)
    odd = torch.nonzero(~((squares > PLAIN_SQUARES[0]) & (squares < PLAIN_SQUARES[1]))).ravel()
    if len(odd):
        data, _, pointers = rows[odd].to_host()
        largest = np.zeros(len(odd))
        filled = np.diff(pointers) > 0
        if filled.any():
            largest[filled] = np.maximum.reduceat(np.abs(data.astype(np.float64)), pointers[:-1][filled])
        refuse_rows(largest, odd.cpu().numpy(), who, "X")
        safe = safe_factors(largest)
        factors[odd] = start.to_device(safe)
        squares[odd] = start.to_device(
            stored_squares(data.astype(np.float64) * np.repeat(safe, np.diff(pointers)), pointers)
        )
    norms = start.roots(squares)
    is_off = (norms - factors).abs() > UNIT_TOLERANCE[dtype] * factors
    if not bool(is_off.any()):
        return rows
    norms[~is_off] = 1.0
    factors[~is_off] = 1.0
    return CsrRows(start_sparse.unit_data(rows, norms, factors), rows.indices, rows.pointers, rows.n_features)
