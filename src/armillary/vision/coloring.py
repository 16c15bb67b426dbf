"""Depth, normals and labels as colours: arrays of pixels in, red, green and blue from 0 to 255 out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.exceptions import InputError
from armillary.palette import COLOR_TABLE, color_numbers
from armillary.vision.regions import check_label_image

Colors = npt.NDArray[np.uint8]  # (H, W, 3)

_LIGHTEST, _DARKEST = 245.0, 40.0  # of depth: black is for what is missing
_NEAR_SHARE, _FAR_SHARE = 0.02, 0.98


def color_labels(labels: Any) -> Colors:
    """Labels (H, W) as colours: an id has the same colour in every frame, missing pixels (-1) are black."""
    return COLOR_TABLE[color_numbers(check_label_image(labels, "color_labels"))]


def color_normals(vectors: Any) -> Colors:
    """Unit normals (H, W, 3) as colours: x, y and z from -1 to 1 as red, green and blue; missing ones (0) are black."""
    normals = np.asarray(vectors)
    if normals.ndim != 3 or normals.shape[2] != 3 or normals.dtype.kind != "f":
        raise InputError(
            f"`vectors` of color_normals must be floats of shape (H, W, 3); got {normals.dtype} of shape "
            f"{normals.shape}. Give `vectors` of what `estimate_normals` returns."
        )
    is_there = np.isfinite(normals).all(axis=2) & normals.any(axis=2)
    colors = np.zeros(normals.shape, dtype=np.uint8)
    colors[is_there] = np.clip(np.rint(127.5 * (1.0 + normals[is_there])), 0, 255)
    return colors


def color_depth(depth: Any) -> Colors:
    """Depth (H, W) as greys, near is light; missing pixels (0, NaN, inf, negative) are black.

    The scale is that of the image: its nearest and farthest fiftieth have one grey each.
    """
    image = np.asarray(depth)
    if image.ndim != 2 or image.dtype.kind not in "uif":
        raise InputError(
            f"`depth` of color_depth must be numbers of shape (H, W); got {image.dtype} of shape {image.shape}. "
            "Give one depth image."
        )
    values = image.astype(np.float32)
    is_there = np.isfinite(values) & (values > 0.0)
    greys = np.zeros(values.shape, dtype=np.uint8)
    if is_there.any():
        near, far = np.quantile(values[is_there], (_NEAR_SHARE, _FAR_SHARE))
        shares = (values[is_there] - near) / max(far - near, 1e-6)
        greys[is_there] = np.rint(_LIGHTEST + (_DARKEST - _LIGHTEST) * np.clip(shares, 0.0, 1.0))
    return np.repeat(greys[:, :, None], 3, axis=2)
