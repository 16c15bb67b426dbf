"""Unit rows in the memory of a GPU: the gate, on the device, with the bits of the gate of `validation.py`.

Rows come as a NumPy array, or as anything that lives on the device and speaks DLPack or `__cuda_array_interface__`.
What is unit already is not copied. Beside the rows lies their shadow, the same numbers as halves, made when labels of
wide rows are first asked for: half of the rows again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import torch

from armillary._typing import Float64Array
from armillary.engines.contract import UNIT, Gate
from armillary.exceptions import InputError, InputTypeError
from armillary.kernels.gpu import start, start_frames
from armillary.points import Block, SparseBlock, everywhere
from armillary.sums import whole
from armillary.validation import (
    PLAIN_SQUARES,
    UNIT_TOLERANCE,
    as_matrix,
    check_sample_weight,
    check_shape,
    computing_dtype,
    refuse_rows,
    safe_factors,
)

# Values that the gate looks at together: 64 MiB in float64.
_AT_ONCE = 1 << 23
# Kernels number rows by 32 bits, and their loops end with a step beyond the last.
MOST_ROWS = 2**31 - (1 << 20)
TORCH_TYPES = {
    torch.float16: np.float16,
    torch.bfloat16: np.float16,  # as wide: both are float32 rows of the same values
    torch.float32: np.float32,
    torch.float64: np.float64,
    torch.int8: np.int8,
    torch.uint8: np.uint8,
    torch.int16: np.int16,
    torch.int32: np.int32,
    torch.int64: np.int64,
    torch.bool: np.bool_,
}
# Types of host arrays that go over as they are.
KNOWN_TYPES = frozenset(np.dtype(known) for known in TORCH_TYPES.values())
_TORCH = {np.dtype(np.float32): torch.float32, np.dtype(np.float64): torch.float64}


@dataclass(frozen=True, eq=False)
class CudaPoints:
    """Unit rows (n, D) and their weights (n,) or None, on the device; see `engines/contract.py`."""

    matrix: torch.Tensor  # (n, D) float32 or float64, rows one after the other; or `CsrRows`
    weights: torch.Tensor | None  # (n,) float64
    who: str
    first_row: int = 0
    is_present: npt.NDArray[np.bool_] | None = None
    grid: int | None = None
    engine: str = "cuda"
    scale: float = 1.0

    @property
    def is_sparse(self) -> bool:
        """Whether rows are CSR."""
        return not isinstance(self.matrix, torch.Tensor)

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return int(self.matrix.shape[0])

    @property
    def n_given(self) -> int:
        """How many came, those that are missing included."""
        return self.n_rows if self.is_present is None else len(self.is_present)

    def spread(self, found: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Numbers of the rows that are here (n, ...), for all that came: NaN for those that are missing."""
        return everywhere(found, self.is_present, np.nan)

    @property
    def n_features(self) -> int:
        """How many columns."""
        return int(self.matrix.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return np.dtype(np.float32 if self.matrix.dtype == torch.float32 else np.float64)

    @property
    def width(self) -> float:
        """Numbers that a row has, on average."""
        return float(getattr(self.matrix, "width", self.n_features))

    @property
    def has_weights(self) -> bool:
        """Whether rows have weights."""
        return self.weights is not None

    @cached_property
    def host_weights(self) -> Float64Array | None:
        """The weights at home."""
        return None if self.weights is None else self.weights.cpu().numpy()

    @cached_property
    def q(self) -> int:
        """Sums over labelled rows are multiples of 2^-q (sums/whole.py); parts of a set have that of the set."""
        if self.grid is not None:
            return self.grid
        weights = self.host_weights
        return whole.exponent(self.n_rows) if weights is None else whole.weights_exponent([weights])

    @cached_property
    def total_weight(self) -> float:
        """The sum of the weights, whole as all sums are; the number of rows where there are none."""
        weights = self.host_weights
        if weights is None:
            return float(self.n_rows)
        return float(whole.rounded(whole.lifted(weights, self.q), self.q).sum())

    @cached_property
    def sum_weights(self) -> torch.Tensor | None:
        """The weights as sums over labelled rows have them (`whole.lifted`)."""
        weights = self.host_weights
        if weights is None:
            return None
        lifted = whole.lifted(weights, self.q)
        return self.weights if lifted is weights else start.to_device(lifted)

    @cached_property
    def shadow(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The rows as halves, and bounds on what that leaves."""
        return start.make_shadow(self.matrix)

    @cached_property
    def scratch(self) -> start.Scratch:
        """What passes write down."""
        return start.Scratch(self.n_rows)

    # -------------------------------------------------------------------------------------------- some rows

    def take(self, numbers: torch.Tensor) -> CudaPoints:
        """Some rows with their weights, as points of their own."""
        weights = None if self.weights is None else self.weights[numbers]
        return CudaPoints(self.matrix[numbers], weights, self.who)

    def between(self, first: int, last: int) -> CudaPoints:
        """The rows from..to, as points of their own that know where they are."""
        if (first, last) == (0, self.n_rows):
            return self
        weights = None if self.weights is None else self.weights[first:last]
        part = CudaPoints(self.matrix[first:last], weights, self.who, self.first_row + first)
        if "shadow" in vars(self) and first * self.shadow[0].shape[1] % 8 == 0:
            vars(part)["shadow"] = tuple(beside[first:last] for beside in self.shadow)
        return part

    def placed(self, first_row: int, q: int) -> CudaPoints:
        """The same rows as a part of more: the number of the first of them there, and the grid of its sums."""
        return self if (first_row, q) == (self.first_row, self.q) else replace(self, first_row=first_row, grid=q)

    def counted(self) -> CudaPoints:
        """The rows whose weight is above 0: these points themselves where all are."""
        if self.weights is None or bool((self.weights > 0.0).all()):
            return self
        return self.take(torch.nonzero(self.weights).ravel())


# ------------------------------------------------------------------------------------------------------ the gate


def as_points(
    X: Any, who: str, sample_weight: Any = None, expected_features: int | None = None, gate: Gate = UNIT
) -> CudaPoints:
    """Rows and weights through the gate, on the device."""
    if gate.kind == "counts":
        raise InputError(
            f"X of {who} must be an array or a CSR matrix on the CPU: rows of counts have no passes on a GPU yet; got "
            "`device`='cuda', or rows that live there. Use device='cpu'."
        )
    rows = _raw_rows(X, who, expected_features, may_be_empty=gate.allows_empty)
    if len(rows) > MOST_ROWS:
        raise InputError(
            f"X of {who} must have at most {MOST_ROWS:,} rows on a GPU, whose kernels number them by 32 bits; got "
            f"{len(rows):,}. Give them in parts by partial_fit, or use device='cpu'."
        )
    weights = given_weights(sample_weight, len(rows), who, gate)
    is_present = None
    if gate.allows_missing:
        is_here = _have_direction(rows)
        if not bool(is_here.all()):
            is_present = is_here.cpu().numpy()
            rows = rows[is_here]
            weights = None if weights is None else weights[is_present]
            if not len(rows) and not gate.allows_empty:
                refuse_all_missing(len(is_present), who)
    given = None if weights is None else start.to_device(weights)
    return CudaPoints(unit_rows(rows, who), given, who, is_present=is_present)


def _have_direction(rows: torch.Tensor) -> torch.Tensor:
    """Which rows (n,) are finite and not all zero; see `validation.has_direction`."""
    step, found = max(1, _AT_ONCE // rows.shape[1]), []
    for part in rows.split(step):
        is_here = (part != 0).any(dim=1)
        found.append(is_here & torch.isfinite(part).all(dim=1) if rows.is_floating_point() else is_here)
    return torch.cat(found)


def rows_at_home(rows: Any) -> Block:
    """Some rows of a device on the host."""
    if isinstance(rows, torch.Tensor):
        block: Block = rows.cpu().numpy()
        return block
    data, indices, pointers = rows.to_host()
    return SparseBlock(data, indices, pointers, rows.n_features)


def refuse_all_missing(n_given: int, who: str) -> NoReturn:
    """No row has a direction."""
    raise InputError(
        f"X of {who} must have a row with a direction; all {n_given} are NaN, infinite or zero. "
        "Check the step that made them."
    )


def given_weights(sample_weight: Any, n_rows: int, who: str, gate: Gate) -> Float64Array | None:
    """Weights at home, checked."""
    found = from_device(sample_weight, who, "`sample_weight`")
    if found is not None:
        # NumPy has no bfloat16
        sample_weight = (found.double() if found.is_floating_point() else found).cpu().numpy()
    if n_rows == 0:
        return None
    return check_sample_weight(sample_weight, n_rows, who, most=gate.most_weight)


def _raw_rows(X: Any, who: str, expected_features: int | None, *, may_be_empty: bool) -> torch.Tensor:
    """X on the device, of any type; its shape is checked, values are not."""
    tensor = from_device(X, who)
    if tensor is None:
        if may_be_empty and len(getattr(X, "shape", ())) == 2 and X.shape[0] == 0 and X.shape[1] >= 2:
            return torch.empty(tuple(X.shape), dtype=torch.float64, device=start.device())
        tensor = _from_host(as_matrix(X, who, expected_features))
    if tensor.ndim != 2:
        raise InputError(
            f"X of {who} must be a 2-D array, one row per vector; got {tensor.ndim}-D of shape {tuple(tensor.shape)}. "
            "Reshape your data: X.reshape(1, -1) if it is a single vector."
        )
    if tensor.dtype not in TORCH_TYPES:
        raise InputTypeError(
            f"X of {who} must hold real numbers; got dtype {tensor.dtype}. Convert it to floats first."
        )
    if not (may_be_empty and tensor.shape[0] == 0):
        check_shape(tuple(tensor.shape), who, expected_features)
    return tensor


def from_device(X: Any, who: str, what: str = "X") -> torch.Tensor | None:
    """A tensor over the memory of something that lives on the device; None for what does not."""
    if isinstance(X, torch.Tensor):
        if X.layout != torch.strided:
            raise InputTypeError(
                f"{what} of {who} must be a dense tensor, or one in CSR, CSC or COO; got the layout {X.layout}. Use "
                "X.to_dense(), or X.to_sparse_csr()."
            )
        found = X.detach()
        return found if found.device.type == start.device().type else found.to(start.device())
    ways: list[Callable[[Any], torch.Tensor]] = []
    if card_of(X) is not None:
        ways.append(torch.from_dlpack)  # first: it waits for the stream that X is made on, which the other does not
    if hasattr(X, "__cuda_array_interface__"):
        ways.append(partial(torch.as_tensor, device=start.device()))
    for number, way in enumerate(ways, 1):
        try:
            return way(X)
        except (TypeError, ValueError, BufferError, RuntimeError) as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            if number == len(ways):
                raise InputTypeError(
                    f"{what} of {who} must be an array of numbers that torch can take where it is; got "
                    f"{type(X).__name__}, of which it says: {str(error).strip().splitlines()[0]} Make a copy in C "
                    "order first."
                ) from error
    return None


# The number of CUDA devices in DLPack.
_CUDA = 2


def card_of(X: Any) -> int | None:
    """The number of the card that X is on, by DLPack; None where it does not say so."""
    if not hasattr(X, "__dlpack_device__"):
        return None
    kind, number = X.__dlpack_device__()
    return int(number) if kind == _CUDA else None


def _from_host(array: Any) -> torch.Tensor:
    given = np.ascontiguousarray(array)
    if not given.dtype.isnative:
        given = given.astype(given.dtype.newbyteorder("="))
    kind = given.dtype
    if kind not in KNOWN_TYPES:
        given = given.astype(computing_dtype(kind))
    if not given.flags.writeable:  # torch warns of what it might write
        given = given.copy()
    return torch.from_numpy(given).to(start.device())


def unit_rows(rows: torch.Tensor, who: str) -> torch.Tensor:
    """Rows as C-contiguous unit rows of float32 or float64: the tensor itself where it is that."""
    kind = _TORCH[computing_dtype(np.dtype(TORCH_TYPES[rows.dtype]))]
    n_rows, n_features = rows.shape
    unit = rows if rows.dtype == kind and rows.is_contiguous() else None
    out: torch.Tensor | None = None if unit is not None else torch.empty(rows.shape, dtype=kind, device=rows.device)
    step = max(1, _AT_ONCE // max(1, n_features))
    for first in range(0, n_rows, step):
        part = rows[first : first + step].to(kind).contiguous()
        made = _unit_part(part, first, who)
        if out is None and made is not part:
            out = torch.empty(rows.shape, dtype=kind, device=rows.device)
            out[:first] = rows[:first]
        if out is not None:
            out[first : first + step] = made
    return rows if out is None else out


def _unit_part(rows: torch.Tensor, first: int, who: str) -> torch.Tensor:
    """Some rows made unit; the tensor itself where all are. See `validation.unit_block`, whose bits these are."""
    if start_frames.are_unit(rows, _tolerance(rows)):
        return rows
    norms, factors, _ = _norms(rows, first, who)
    # in float64, rounded once; rows divided by 1 keep their bits
    return ((rows.double() * factors[:, None]) / norms[:, None]).to(rows.dtype)


def _tolerance(rows: torch.Tensor) -> float:
    return UNIT_TOLERANCE[np.dtype(np.float64 if rows.dtype == torch.float64 else np.float32)]


def _norms(rows: torch.Tensor, first: int, who: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What rows are divided by and multiplied with before, 1 where they are unit; and where they are not."""
    tolerance = _tolerance(rows)
    squares = start.squares(rows)
    odd = torch.nonzero(~((squares > PLAIN_SQUARES[0]) & (squares < PLAIN_SQUARES[1]))).ravel()
    factors = torch.ones_like(squares)
    if len(odd):
        largest = rows[odd].double().abs().amax(dim=1).cpu().numpy()
        refuse_rows(largest, first + odd.cpu().numpy(), who, "X")
        factors[odd] = start.to_device(safe_factors(largest))
        squares[odd] = start.squares((rows[odd].double() * factors[odd, None]).contiguous())
    norms = start.roots(squares)
    is_off = (norms - factors).abs() > tolerance * factors
    return norms.masked_fill_(~is_off, 1.0), factors.masked_fill_(~is_off, 1.0), is_off


def unit_and_shadow(rows: torch.Tensor, who: str) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Contiguous rows of any type as unit rows and their shadow, in one go: what goes by is made anew in every pass."""
    kind = _TORCH[computing_dtype(np.dtype(TORCH_TYPES[rows.dtype]))]
    given = rows if rows.is_floating_point() else rows.to(kind)
    norms, factors, _ = _norms(given, 0, who)
    return start.unit_and_shadow(given, norms, factors, kind)
