"""Labels of a frame that hold on to those of the frame before.

Labels      z_i maximises x_i . mu_z - steadiness [z is not the label of pixel i in the last frame], pixel by pixel: the
            labels of a frame maximise the sum of cosines less `steadiness` for each pixel that leaves its label. Exact,
            since given the directions no pixel depends on another; with a tie the smaller id is taken
Last frame  where a pixel was in the last frame is told by the motion of the camera (`motion.py`): by its turn and its
            way. What was seen there counts where its depth was that of the pixel, within `max_depth_jump`
No normal   a pixel that was measured and has no normal in this frame keeps the label that it had
Border      the outermost pixels of an image have no normal, for want of a neighbour: one that lies in the plane of the
            pixel inside of it takes its label
"""

from __future__ import annotations

import math
import os
import zipfile
import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.durable.whole import whole_file
from armillary.exceptions import InputError
from armillary.validation import check_choice, check_integer, check_path, check_rotation
from armillary.vision._bands import over_rows
from armillary.vision.camera import Camera
from armillary.vision.motion import ViewMotion
from armillary.vision.normals import Normals
from armillary.vision.regions import LabelImage, check_label_image
from armillary.workers import Workers

# of the jump that ends a surface: what is off its plane by less lies in it
_NEAR_PLANE = 0.5

TRACKING = ("first", "held", "lost", "regained")


@dataclass(frozen=True, eq=False)
class LastFrame:
    """What a frame leaves for the next.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from armillary.vision import LastFrame
    >>> path = tempfile.mkdtemp() + "/last.npz"
    >>> LastFrame(np.zeros((2, 3), np.int32), np.ones((2, 3))).save(path)
    >>> LastFrame.load(path).labels.shape
    (2, 3)
    """

    labels: LabelImage  # (H, W)
    depth: FloatArray  # (H, W) metres, as it was smoothed
    rotation: Float64Array | None = None  # (3, 3) by which the view had turned
    tracking: str = "held"  # as `SegmentedFrame.tracking`
    n_frames: int = 0  # of the stream so far

    def __post_init__(self) -> None:
        who = "LastFrame"
        labels, depth = check_label_image(self.labels, who), np.asarray(self.depth)
        if depth.shape != labels.shape or depth.dtype not in (np.float32, np.float64):
            raise InputError(
                f"`depth` of {who} must be metres as float32 or float64, of the shape of its labels, {labels.shape}; "
                f"got {depth.dtype} of shape {depth.shape}. Give `last` of a segmenter, or what LastFrame.load reads."
            )
        for name, value in (("labels", np.ascontiguousarray(labels)), ("depth", np.ascontiguousarray(depth))):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "rotation", check_rotation(self.rotation, 3, who))
        check_choice(self.tracking, "tracking", who, TRACKING)
        check_integer(self.n_frames, "n_frames", who, low=0)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as an .npz file, whole or not at all.

        Parameters
        ----------
        path : str or os.PathLike
            The file.
        """
        turn = np.empty((0, 3)) if self.rotation is None else self.rotation
        with whole_file(path) as stream:
            np.savez_compressed(
                stream, labels=self.labels, depth=self.depth, rotation=turn, tracking=self.tracking,
                n_frames=self.n_frames,
            )  # fmt: skip

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LastFrame:
        """Read what `save` wrote.

        Parameters
        ----------
        path : str or os.PathLike
            The file.

        Returns
        -------
        LastFrame
            What was saved.
        """
        place = check_path(path, "LastFrame.load")
        try:
            with np.load(place, allow_pickle=False) as found:
                turn = found["rotation"]
                # earlier files have neither
                tracking = str(found["tracking"]) if "tracking" in found else "held"
                n_frames = int(found["n_frames"]) if "n_frames" in found else 0
                return cls(found["labels"], found["depth"], turn if turn.size else None, tracking, n_frames)
        except (
            OSError,
            ValueError,
            TypeError,
            KeyError,
            EOFError,
            zipfile.BadZipFile,
            zlib.error,
            MemoryError,
        ) as error:
            raise InputError(
                f"LastFrame.load reads what LastFrame.save wrote; '{path}' is none of these: {error}. Save it again."
            ) from None


def warp(motion: ViewMotion, camera: Camera) -> tuple[Float64Array, Float64Array]:
    """H (3, 3) and e (3,): a pixel p = (u, v, 1) of now at depth z was at z H p + e in the last frame."""
    lens = np.array([[camera.fx, 0.0, camera.cx], [0.0, camera.fy, camera.cy], [0.0, 0.0, 1.0]])
    back = lens @ motion.rotation.T
    return np.ascontiguousarray(back @ np.linalg.inv(lens)), -back @ motion.way


@dataclass(frozen=True, eq=False)
class LookBack:
    """The last frame, and where pixels were in it."""

    frame: LastFrame
    motion: ViewMotion
    camera: Camera
    steadiness: float


def steady_labels(
    normals: Normals,
    ids: npt.NDArray[np.int64],
    directions: Float64Array,
    depth: FloatArray | None,
    back: LookBack | None,
    jump: float,
    workers: Workers,
) -> LabelImage:
    """The labels (H, W) of a frame whose clusters have these ids (K,), increasing, and directions (K, 3)."""
    from armillary.kernels.images import labelling as kernels  # numba loads when first needed

    labels, names = np.empty(normals.is_valid.shape, np.int32), ids.astype(np.int32)
    if not len(ids):
        labels[:] = -1
        return labels
    turn, way, steadiness = np.eye(3), np.zeros(3), 0.0
    table, last_labels = np.empty(0, np.int32), labels
    now = last_depth = np.empty((1, 1), np.float32) if depth is None else depth
    if back is not None and depth is not None:
        (turn, way), steadiness = warp(back.motion, back.camera), back.steadiness
        table, last_labels, last_depth = _table(back.frame.labels, ids), back.frame.labels, back.frame.depth

    def work(start: int, stop: int) -> None:
        kernels.label_pixels(
            normals.vectors, normals.is_valid, directions, names, steadiness, now, last_depth, last_labels, table,
            turn, way, jump, start, stop, labels,
        )  # fmt: skip

    over_rows(workers, len(labels), work)
    return labels


def label_border(
    labels: LabelImage, normals: Normals, depth: FloatArray, camera: Camera, farthest: float, jump: float
) -> None:
    """Label pixels of the border of `labels` (H, W), up to `farthest`, that lie in the plane of the one inside."""
    from armillary.kernels.images import labelling as kernels  # numba loads when first needed

    if min(labels.shape) < 3:
        return
    lens = np.array([camera.fx, camera.fy, camera.cx, camera.cy])
    kernels.label_border(labels, normals.vectors, normals.is_valid, depth, lens, farthest, _NEAR_PLANE * jump)


def _table(labels: LabelImage, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """The place of each label among `ids` (K,); -1 for those that are not."""
    table = np.full(max(1, int(labels.max(initial=-1)) + 1), -1, dtype=np.int32)
    known = ids[ids < len(table)]
    table[known] = np.searchsorted(ids, known)
    return table


def default_stride(n_pixels: int) -> int:
    """Of which every so many pixels are learnt: about 40,000 in all."""
    return max(1, round(math.sqrt(n_pixels / 40_000.0)))


def default_region(n_pixels: int) -> int:
    """Pixels below which a region is small: one in 1,500 of the image."""
    return n_pixels // 1_500
