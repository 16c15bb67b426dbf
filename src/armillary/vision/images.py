"""Image files: depth in; coloured labels, ids and animations out. The home of Pillow.

Every file appears whole or not at all: it is written beside its place and moved there.
"""

from __future__ import annotations

import base64
import contextlib
import io
import math
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from armillary.durable.whole import whole_file
from armillary.exceptions import InputError, MissingExtraError
from armillary.palette import COLOR_TABLE, color_numbers
from armillary.validation import check_path, check_positive
from armillary.vision.coloring import Colors, color_labels
from armillary.vision.regions import LabelImage, check_label_image

PathLike = str | os.PathLike[str]

IMAGE_ENDINGS = (".png", ".pgm", ".tif", ".tiff")
MOST_IDS = 65_535  # that an image of 16 bits holds beside 0 for missing
_PALETTE_SAMPLE = 20_000  # pixels of which the palette of a GIF frame is made
_MODES = {
    "1": "one bit per pixel", "P": "a palette of colours", "RGB": "colours (RGB)", "RGBA": "colours (RGBA)",
    "LA": "grey with transparency", "CMYK": "colours (CMYK)", "YCbCr": "colours (YCbCr)",
}  # fmt: skip


# ------------------------------------------------------------------------------------------------------- reading


def read_depth_image(path: PathLike) -> npt.NDArray[Any]:
    """Depth (H, W) of an image file with one channel: 8 or 16 bits as uint16, 32 as they are, floats as float32.

    What the numbers mean is the camera's affair (`Camera.depth_scale`); floats are metres.

    Parameters
    ----------
    path : str or os.PathLike
        The file.

    Returns
    -------
    array of shape (H, W)
        As the file has it.

    Examples
    --------
    >>> import tempfile
    >>> from armillary.vision import read_depth_image, write_id_image
    >>> path = tempfile.mkdtemp() + "/depth.png"
    >>> write_id_image(path, [[999, 1999]])  # 16 bits: a number and one more
    >>> read_depth_image(path).tolist()
    [[1000, 2000]]
    """
    pixels = _pixels(path, "read_depth_image")
    if pixels.dtype == np.uint8:
        return pixels.astype(np.uint16)
    return pixels


def read_id_image(path: PathLike) -> LabelImage:
    """The labels (H, W), int32, that `write_id_image` wrote; -1 for missing.

    Parameters
    ----------
    path : str or os.PathLike
        The file.

    Returns
    -------
    array of shape (H, W), int32
        Ids.

    Examples
    --------
    >>> import tempfile
    >>> from armillary.vision import read_id_image, write_id_image
    >>> path = tempfile.mkdtemp() + "/ids.png"
    >>> write_id_image(path, [[0, 7, -1]])
    >>> read_id_image(path).tolist()
    [[0, 7, -1]]
    """
    who = "read_id_image"
    pixels = _pixels(path, who)
    if pixels.dtype.kind not in "ui":
        raise InputError(f"{who} reads images that write_id_image wrote; '{path}' holds {pixels.dtype}.")
    return pixels.astype(np.int32) - 1


def thumbnail_address(path: PathLike, size: int = 72) -> str:
    """A small copy of a picture as the address of a JPEG, `data:image/jpeg;base64,...`, for pages of one file."""
    who = "thumbnail_address"
    pillow = _pillow(who)
    try:
        with pillow.open(check_path(path, who)) as image:
            image.draft("RGB", (size, size))
            small = image.convert("RGB")
            small.thumbnail((size, size))
    except FileNotFoundError:
        raise InputError(f"The picture '{path}' is not there. Check the path, or leave the pictures out.") from None
    except (OSError, ValueError, pillow.UnidentifiedImageError, pillow.DecompressionBombError) as error:
        raise InputError(f"The picture '{path}' cannot be read ({error}). Leave its path empty.") from error
    content = io.BytesIO()
    small.save(content, "JPEG", quality=70)
    return "data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode("ascii")


def _pixels(path: PathLike, who: str) -> npt.NDArray[Any]:
    pillow = _pillow(who)
    try:
        with pillow.open(check_path(path, who)) as image:
            image.load()
            mode, pixels = image.mode, np.array(image)
            if mode == "I" and image.format == "PNG":
                pixels = pixels.astype(np.uint16)  # Pillow 10 reads 16 bits as 32; a PNG has no more
    except FileNotFoundError:
        raise InputError(f"'{path}' is not there. Check the path.") from None
    except IsADirectoryError:
        raise InputError(f"'{path}' is a folder, and {who} takes one image file.") from None
    except PermissionError:
        raise InputError(f"'{path}' may not be read: permission denied. Check who owns it.") from None
    except pillow.UnidentifiedImageError:
        raise InputError(
            f"'{path}' is not an image that can be read, or is cut off at its beginning. Give a PNG of one channel "
            "with 8 or 16 bits."
        ) from None
    except (OSError, SyntaxError, ValueError, EOFError, pillow.DecompressionBombError) as error:
        # damaged files raise any of these
        raise InputError(
            f"'{path}' is damaged or cut off: {str(error).rstrip('.')}. Fetch or record it again."
        ) from None
    if pixels.ndim != 2 or mode in _MODES:
        raise InputError(
            f"'{path}' must be a depth image with one channel of 8 or 16 bits; it has {_MODES.get(mode, mode)}. Give "
            "the depth image of the camera, not its colour image or a picture of the depth."
        )
    return pixels


# ------------------------------------------------------------------------------------------------------- writing


def write_label_image(path: PathLike, labels: Any, table: Any = None) -> None:
    """Write labels (H, W) as a PNG in colours: an id has its colour in every frame, missing pixels (-1) are black.

    `table` (n, 3), uint8, has the colour of each id, as in `color_labels`.

    Parameters
    ----------
    path : str or os.PathLike
        The file.
    labels : array-like of int of shape (H, W)
        Ids; -1 is missing.
    table : array-like of shape (n, 3), optional
        Colours of the ids.

    Examples
    --------
    >>> import tempfile
    >>> from armillary.vision import write_label_image
    >>> write_label_image(tempfile.mkdtemp() + "/labels.png", [[0, 1], [1, -1]])
    """
    image = check_label_image(labels, "write_label_image")
    if table is not None:
        _write_png(path, _pillow("write_label_image").fromarray(color_labels(image, table)))
        return
    picture = _pillow("write_label_image").fromarray(color_numbers(image), mode="P")
    picture.putpalette(COLOR_TABLE.ravel().tolist())
    _write_png(path, picture)


def write_id_image(path: PathLike, labels: Any) -> None:
    """Write labels (H, W) as a PNG of 16 bits for other programs: id + 1, and 0 for missing pixels.

    Parameters
    ----------
    path : str or os.PathLike
        The file.
    labels : array-like of int of shape (H, W)
        Ids; -1 is missing.

    Examples
    --------
    >>> import tempfile
    >>> from armillary.vision import write_id_image
    >>> write_id_image(tempfile.mkdtemp() + "/ids.png", [[0, 7, -1]])
    """
    who = "write_id_image"
    image = check_label_image(labels, who)
    if image.size and image.max() >= MOST_IDS:
        raise InputError(
            f"`labels` of {who} must be below {MOST_IDS} to fit into 16 bits; got {image.max()}. Number them anew "
            "first."
        )
    _write_png(path, _pillow(who).fromarray((image + 1).astype(np.uint16)))


def read_color_image(path: PathLike, size: tuple[int, int] | None = None) -> Colors:
    """Red, green and blue (H, W, 3), uint8, of an image file; scaled to `size` (width, height) if its shape is that."""
    pillow = _pillow("read_color_image")
    try:
        with pillow.open(check_path(path, "read_color_image")) as image:
            picture = image.convert("RGB")
            if size is not None and picture.size != size and _has_shape(picture.size, size):
                picture = picture.resize(size, pillow.Resampling.BOX)
            return np.array(picture)
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise InputError(f"'{path}' cannot be read as an image: {error}. Give a PNG or JPEG file.") from None


def _has_shape(size: tuple[int, int], wanted: tuple[int, int]) -> bool:
    """Whether one is a scaled copy of the other, to half a pixel."""
    return abs(size[0] * wanted[1] - size[1] * wanted[0]) <= 0.5 * max(*size, *wanted)


def legend_image(ids: Any, table: Any, words: Any) -> Colors:
    """A picture of the colours of ids (K,), each with a word or two beside it."""
    from PIL import ImageDraw

    height, width = 18, 320
    picture = _pillow("legend_image").new("RGB", (width, max(1, len(ids)) * height + 8), "white")
    draw, colors = ImageDraw.Draw(picture), np.asarray(table)
    for place, (number, word) in enumerate(zip(ids, words, strict=True)):
        top = 4 + place * height
        draw.rectangle((6, top + 2, 34, top + height - 3), fill=tuple(int(value) for value in colors[number]))
        draw.text((42, top + 3), f"{number}  {word}", fill=(40, 46, 58))
    return np.array(picture)


def write_image(path: PathLike, colors: Colors) -> None:
    """Write red, green and blue (H, W, 3), uint8, as a PNG.

    Parameters
    ----------
    path : str or os.PathLike
        The file.
    colors : array of shape (H, W, 3), uint8
        The image.

    Examples
    --------
    >>> import tempfile
    >>> from armillary.vision import color_labels, write_image
    >>> write_image(tempfile.mkdtemp() + "/labels.png", color_labels([[0, 1], [1, -1]]))
    """
    _write_png(path, _pillow("write_image").fromarray(colors))


def _write_png(path: PathLike, picture: Any) -> None:
    with whole_file(path) as stream:
        stream.write(_png(picture))


def png_bytes(colors: Colors) -> bytes:
    """Red, green and blue (H, W, 3), uint8, as the content of a PNG file."""
    return _png(_pillow("png_bytes").fromarray(colors))


def _png(picture: Any) -> bytes:
    content = io.BytesIO()
    picture.save(content, format="PNG", compress_level=3)  # a third larger than level 6, in half the time
    return content.getvalue()


# ---------------------------------------------------------------------------------------------------- animations


def has_ffmpeg() -> bool:
    """Whether MP4 files can be written: a program `ffmpeg` is found, or the extra "mp4" is installed."""
    return _ffmpeg() is not None


def _ffmpeg() -> str | None:
    """The encoder: a program of the system, or that of imageio-ffmpeg, which is FFmpeg with x264 under the GPL."""
    found = shutil.which("ffmpeg")
    if found is None:
        with contextlib.suppress(ImportError, RuntimeError):  # the package may have come without a program
            import imageio_ffmpeg

            return str(imageio_ffmpeg.get_ffmpeg_exe())
    return found


class Animation:
    """Frames to a GIF, or to an MP4 where ffmpeg is found: `with Animation(path) as film: film.add(colors)`.

    The file appears at the end of the block or with `close`, also after an error: it then has the frames added so far.
    Without frames there is no file.

    Parameters
    ----------
    path : str or os.PathLike
        Ends in ".gif" or ".mp4".
    frames_per_second : float, default=15
        A GIF shows each frame for a multiple of 10 milliseconds, at least 20.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from armillary.vision import Animation
    >>> path = Path(tempfile.mkdtemp()) / "two_frames.gif"
    >>> with Animation(path) as film:
    ...     film.add(np.zeros((8, 8, 3), np.uint8))
    ...     film.add(np.full((8, 8, 3), 255, np.uint8))
    >>> path.stat().st_size > 0
    True
    """

    def __init__(self, path: PathLike, frames_per_second: float = 15.0) -> None:
        who = "Animation"
        self.path = Path(check_path(path, who))
        rate = check_positive(frames_per_second, "frames_per_second", who, is_finite=True)
        ending = self.path.suffix.lower()
        if ending not in (".gif", ".mp4"):
            raise InputError(f"`path` of {who} must end in .gif or .mp4; got '{path}'.")
        if ending == ".mp4" and not has_ffmpeg():
            raise InputError(f"An MP4 needs the program ffmpeg, which is not found; got '{path}'. Write a .gif.")
        self._film: _Gif | _Mp4 = (_Gif if ending == ".gif" else _Mp4)(self.path, rate)
        self._size: tuple[int, ...] | None = None

    def __enter__(self) -> Self:
        return self

    def add(self, colors: Colors) -> None:
        """The next frame: red, green and blue (H, W, 3), uint8, of one size throughout.

        Parameters
        ----------
        colors : array of shape (H, W, 3), uint8
        """
        if self._size not in (None, colors.shape) or colors.ndim != 3 or colors.dtype != np.uint8:
            raise InputError(
                f"Frames of an Animation must be uint8 of one shape (H, W, 3); got {colors.dtype} of shape "
                f"{colors.shape}{f' after {self._size}' if self._size else ''}. Scale them first."
            )
        self._size = colors.shape
        self._film.add(colors)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write the file, if there are frames."""
        if self._size is not None:
            self._film.finish()


class _Gif:
    """Each frame with a palette of its own, in which the colours of ids are exact."""

    def __init__(self, path: Path, rate: float) -> None:
        self._path = path
        self._pillow = _pillow("Animation")
        self._milliseconds = max(20, 10 * round(100.0 / rate))
        self._frames: list[Any] = []

    def add(self, colors: Colors) -> None:
        exact = _table_rows(colors)
        step = max(1, int(math.sqrt(exact.size / _PALETTE_SAMPLE)))
        n_free = 256 - len(COLOR_TABLE)
        # the other colours are found in a sample of the frame, and every pixel takes the nearest
        sample = self._pillow.fromarray(np.ascontiguousarray(colors[::step, ::step])).quantize(n_free)
        others = self._pillow.fromarray(colors).quantize(palette=sample, dither=self._pillow.Dither.NONE)
        indices = np.where(exact >= 0, exact, np.asarray(others).astype(np.int16) + len(COLOR_TABLE))
        picture = self._pillow.fromarray(indices.astype(np.uint8), mode="P")
        picture.putpalette(COLOR_TABLE.ravel().tolist() + (sample.getpalette() or [])[: 3 * n_free])
        self._frames.append(picture)

    def finish(self) -> None:
        first, *others = self._frames
        looks = {"duration": self._milliseconds, "loop": 0, "optimize": False}
        with whole_file(self._path) as stream:
            first.save(stream, format="GIF", save_all=True, append_images=others, **looks)


def _table_rows(colors: Colors) -> npt.NDArray[np.int16]:
    """The row of `COLOR_TABLE` of each pixel (H, W); -1 for other colours."""
    codes, wanted = (image.astype(np.int32) @ np.array([65536, 256, 1]) for image in (colors, COLOR_TABLE))
    order = np.argsort(wanted)
    places = np.minimum(np.searchsorted(wanted[order], codes), len(wanted) - 1)
    rows = order[places]
    return np.where(wanted[rows] == codes, rows, -1).astype(np.int16)


class _Mp4:
    """Frames through a pipe to ffmpeg, which is started at the first one; nothing is kept in memory."""

    def __init__(self, path: Path, rate: float) -> None:
        self._path = path
        self._rate = rate
        self._file = contextlib.ExitStack()
        self._encoder: subprocess.Popen[bytes] | None = None

    def add(self, colors: Colors) -> None:
        if self._encoder is None:
            stream = self._file.enter_context(whole_file(self._path))
            self._encoder = _start_ffmpeg(stream.name, colors.shape[0], colors.shape[1], self._rate)
        assert self._encoder.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `finish` tells why ffmpeg ended
            self._encoder.stdin.write(np.ascontiguousarray(colors).data)

    def finish(self) -> None:
        assert self._encoder is not None
        with self._file:
            _, said = self._encoder.communicate()
            if self._encoder.returncode:
                reason = (said.decode(errors="replace").strip().splitlines() or ["no reason given"])[-1]
                raise InputError(f"ffmpeg could not write '{self._path}': {reason}. Write a .gif instead.")


def _start_ffmpeg(path: str, height: int, width: int, rate: float) -> subprocess.Popen[bytes]:
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{rate:g}", "-i", "-"]
    # the usual players want even sizes and this layout of colours
    target = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p", "-movflags", "+faststart", "-f", "mp4"]
    command = [_ffmpeg() or "ffmpeg", "-loglevel", "error", "-y", *source, *target, path]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _pillow(who: str) -> Any:
    """Pillow's module Image."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError.of(who, "Pillow", "vision") from error
    return Image


# ----------------------------------------------------------------------------------------------------- thumbnails

_MOST_PIXELS = 40_000_000


def thumbnail_png(content: bytes, side: int = 160) -> bytes:
    """A small PNG of an image from anywhere (png, jpeg or webp), drawn anew: nothing else of the file is kept."""
    who = "thumbnail_png"
    pillow = _pillow(who)
    try:
        with pillow.open(io.BytesIO(content), formats=("PNG", "JPEG", "WEBP")) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise InputError(
                    f"{who} takes images of up to {_MOST_PIXELS:,} pixels; got {image.width} x {image.height}."
                )
            image.thumbnail((side, side))
            drawn = io.BytesIO()
            pillow.fromarray(np.array(image.convert("RGB"))).save(drawn, "PNG")
            return drawn.getvalue()
    except InputError:
        raise
    except Exception as error:
        # damaged files raise anything
        raise InputError(
            f"{who} takes a whole png, jpeg or webp image; this is none: {type(error).__name__}."
        ) from None
