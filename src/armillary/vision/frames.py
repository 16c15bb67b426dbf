"""Recorded frames as a sequence that reads each file when it is asked for.

folder       its images in natural order (2 before 10), those with "depth" in their names where others are beside them
             (7-Scenes), seconds where they are their names (TUM's folder `depth`); or its list `depth.txt`, or its
             folder `depth`
list .txt    a line for each frame, "timestamp path" or "path", relative to the list, # for comments (TUM RGB-D)
.npz, .npy   depth (H, W) or (T, H, W), or normals (H, W, 3) or (T, H, W, 3)
image        one frame
"""

from __future__ import annotations

import contextlib
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from armillary.exceptions import InputError
from armillary.validation import check_path
from armillary.vision.images import IMAGE_ENDINGS, PathLike, read_depth_image

Pixels = npt.NDArray[Any]

_LISTS = (".txt",)
_ARRAYS = (".npz", ".npy")
# what an array of frames in a .npz is called where it holds several arrays
_USUAL_KEYS = ("depth", "depths", "frames", "normals")
_GIVE = "Give a folder of PNG files, a list like depth.txt, a .npz or .npy file, or one image."


@dataclass(frozen=True)
class _Place:
    """Where one frame is."""

    path: Path
    name: str
    timestamp: float | None = None
    index: int | None = None  # in an array of frames
    key: str | None = None  # of the array in a .npz


class Frames(Sequence[Pixels]):
    """Frames in order: `len(frames)`, `frames[3]`, `for frame in frames`, `frames[10:20]`.

    Attributes
    ----------
    names : tuple of str
        A word for each frame that no other has: the file's name without its ending, or its number.
    sources : tuple of str
        The file of each frame, with the number of the frame where it holds several.
    timestamps : tuple of float or None
        Seconds, from lists that have them, and from names like "1305031910.765238".

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from armillary.vision import open_frames
    >>> path = tempfile.mkdtemp() + "/frames.npy"
    >>> np.save(path, np.ones((5, 4, 6), np.uint16))
    >>> frames = open_frames(path)
    >>> len(frames), frames.names[:2], frames[1:4][0].shape
    (5, ('frames_00000', 'frames_00001'), (4, 6))
    """

    def __init__(self, places: Iterable[_Place]) -> None:
        self._places = tuple(places)
        self._array: tuple[tuple[Path, str | None], Pixels] | None = None  # the one read last
        words = [place.name for place in self._places]
        is_unique = len(set(words)) == len(words)
        self.names = tuple(words) if is_unique else tuple(f"{number:05}" for number in range(len(words)))
        self.sources = tuple(
            str(place.path) if place.index is None else f"{place.path}[{place.index}]" for place in self._places
        )
        self.timestamps = tuple(place.timestamp for place in self._places)

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, which: int) -> Pixels: ...
    @overload
    def __getitem__(self, which: slice) -> Frames: ...
    def __getitem__(self, which: int | slice) -> Pixels | Frames:
        """One frame, read now; or a part of the sequence, of which nothing is read."""
        if isinstance(which, slice):
            return Frames(self._places[which])
        place = self._places[which]
        if place.path.suffix.lower() not in _ARRAYS:
            return read_depth_image(place.path)
        where = place.path, place.key
        if self._array is None or self._array[0] != where:
            self._array = where, _read_array(*where)
        array = self._array[1]
        return array if place.index is None else np.asarray(array[place.index])


def open_frames(*paths: PathLike, key: str | None = None) -> Frames:
    """Open recorded frames; several paths are one sequence, in the order given.

    Images are read when they are asked for. Files that are not there are found now, damaged ones when they are read.

    Parameters
    ----------
    paths : str or os.PathLike
        Folders, lists, arrays or images, see the head of this module.
    key : str, optional
        The name of the array in a .npz. By default the only one that can be frames, or "depth", "depths", "frames"
        or "normals".

    Returns
    -------
    frames : Frames
        Each frame is depth (H, W) of integers (units of the camera) or floats (metres), or normals (H, W, 3).

    Raises
    ------
    InputError
        A sentence that names the file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from armillary.vision import open_frames
    >>> path = tempfile.mkdtemp() + "/frames.npy"
    >>> np.save(path, np.ones((5, 4, 6), np.uint16))
    >>> len(open_frames(path)), open_frames(path)[0].shape
    (5, (4, 6))
    """
    if not paths:
        raise InputError(f"open_frames needs at least one path; got none. {_GIVE}")
    return Frames([place for path in paths for place in _places(Path(check_path(path, "open_frames")), key)])


def _places(path: Path, key: str | None) -> list[_Place]:
    if path.is_dir():
        return _folder(path, key)
    if not path.exists():
        raise InputError(f"'{path}' is not there. {_GIVE}")
    ending = path.suffix.lower()
    if ending in _LISTS:
        return _list(path)
    if ending in _ARRAYS:
        return _array(path, key)
    if ending in IMAGE_ENDINGS:
        return [_Place(path, path.stem)]
    raise InputError(f"'{path}' has an ending that is not known here, {path.suffix or 'none'}. {_GIVE}")


def _folder(folder: Path, key: str | None) -> list[_Place]:
    images = [path for path in folder.iterdir() if path.suffix.lower() in IMAGE_ENDINGS and not _is_hidden(path)]
    images = [path for path in images if "depth" in path.stem.lower()] or images
    if images:
        images = sorted(images, key=natural_order)
        times = times_of(images)
        return [_Place(path, path.stem, time) for path, time in zip(images, times, strict=True)]
    if (folder / "depth.txt").is_file():
        return _list(folder / "depth.txt")
    if (folder / "depth").is_dir():
        return _folder(folder / "depth", key)
    arrays = [path for path in folder.iterdir() if path.suffix.lower() in _ARRAYS and not _is_hidden(path)]
    if arrays:
        return [place for path in sorted(arrays, key=natural_order) for place in _array(path, key)]
    raise InputError(f"'{folder}' has no frames: no image, no list depth.txt, no folder depth. {_GIVE}")


def times_of(files: Sequence[Path]) -> list[float | None]:
    """Seconds where all files are named by them, as "1305031910.765238.png"."""
    if all(re.fullmatch(r"\d+\.\d+", file.stem) for file in files):
        return [float(file.stem) for file in files]
    return [None] * len(files)


def _is_hidden(path: Path) -> bool:
    return path.name.startswith(".")


def natural_order(path: Path) -> list[tuple[int, str]]:
    """Numbers in names by their value: frame2 before frame10."""
    parts = re.split(r"(\d+)", path.name)
    return [(int(part), part) if part.isdigit() else (-1, part) for part in parts]


def _list(path: Path) -> list[_Place]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (UnicodeDecodeError, OSError):
        raise InputError(f"'{path}' is no list of frames: it cannot be read as text. {_GIVE}") from None
    places = []
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].split()
        if words:
            places.append(_listed(path, number, words))
    if not places:
        raise InputError(f"'{path}' lists no frames. Give lines 'timestamp path', with paths relative to the list.")
    return places


def _listed(path: Path, number: int, words: list[str]) -> _Place:
    """One line of a list."""
    rule = "must be 'timestamp path' or 'path'"
    try:
        timestamp = float(words[0]) if len(words) == 2 else None
    except ValueError:
        raise InputError(
            f"Line {number} of '{path}' {rule}; {words[0]!r} is no number. Write paths without spaces."
        ) from None
    if len(words) > 2:
        raise InputError(
            f"Line {number} of '{path}' {rule}; it has {len(words)} words. Give the list of depth images alone."
        )
    image = path.parent / words[-1]
    if image.suffix.lower() not in IMAGE_ENDINGS:
        raise InputError(
            f"Line {number} of '{path}' must name an image ({', '.join(IMAGE_ENDINGS)}); got {words[-1]!r}. {_GIVE}"
        )
    if not image.is_file():
        raise InputError(f"Line {number} of '{path}' names '{image}', which is not there. Paths start at the list.")
    return _Place(image, image.stem, timestamp)


# --------------------------------------------------------------------------------------------------------- arrays


class _Header(NamedTuple):
    """What an array says of itself before it is read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def are_vectors(self) -> bool:
        return self.shape[-1:] == (3,) and self.dtype.kind == "f"

    @property
    def is_one_frame(self) -> bool:
        return len(self.shape) == 2 or (len(self.shape) == 3 and self.are_vectors)

    @property
    def can_be_frames(self) -> bool:
        is_depth = len(self.shape) in (2, 3) and self.dtype.kind in "uif"
        return (is_depth or (len(self.shape) == 4 and self.are_vectors)) and 0 not in self.shape


def _array(path: Path, key: str | None) -> list[_Place]:
    """The frames of an array, of which only the header is read now."""
    with _named_errors(path):
        if path.suffix.lower() == ".npy":
            key, header = None, _header_of(np.load(path, mmap_mode="r", allow_pickle=False))
            what = f"'{path}'"
        else:
            key, header = _chosen(path, _headers(path), key)
            what = f"{key!r} in '{path}'"
    if not header.can_be_frames:
        raise InputError(
            f"{what} must be depth of shape (H, W) or (T, H, W), or float normals of shape (H, W, 3) or (T, H, W, 3), "
            f"and not empty; got {header.dtype} of shape {header.shape}."
        )
    if header.is_one_frame:
        return [_Place(path, path.stem, key=key)]
    return [_Place(path, f"{path.stem}_{number:05}", index=number, key=key) for number in range(header.shape[0])]


def _header_of(array: Pixels) -> _Header:
    return _Header(array.shape, array.dtype)


def _headers(path: Path) -> dict[str, _Header]:
    """The arrays of a .npz by name."""
    headers = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            with archive.open(member) as stream:
                version = np.lib.format.read_magic(stream)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(stream)
            headers[member.removesuffix(".npy")] = _Header(shape, dtype)
    return headers


def _chosen(path: Path, headers: dict[str, _Header], key: str | None) -> tuple[str, _Header]:
    """The array asked for, or the one that can be meant."""
    if key is not None:
        if key not in headers:
            words = ", ".join(repr(name) for name in headers) or "none"
            raise InputError(f"'{path}' has no array {key!r}; it has {words}. Name one of them as `key`.")
        return key, headers[key]
    fitting = [name for name, header in headers.items() if header.can_be_frames]
    usual = [name for name in _USUAL_KEYS if name in fitting]
    if usual or len(fitting) == 1:
        name = (usual or fitting)[0]
        return name, headers[name]
    shapes = ", ".join(f"{name!r} {header.dtype} {header.shape}" for name, header in headers.items()) or "none"
    raise InputError(
        f"'{path}' must have one array that can be frames, depth (T, H, W) or normals (T, H, W, 3); it has {shapes}. "
        "Name one as `key`."
    )


def _read_array(path: Path, key: str | None) -> Pixels:
    with _named_errors(path):
        if key is None:  # a .npy stays on disk, and of it a frame is read when it is asked for
            return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
        with np.load(path, allow_pickle=False) as stored:
            return np.asarray(stored[key])


@contextlib.contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    """What damaged files raise, as a sentence that names the file."""
    try:
        yield
    except InputError:
        raise
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, MemoryError) as error:
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise InputError(f"'{path}' is damaged, cut off or no NumPy file: {reason}. Save it again.") from None
