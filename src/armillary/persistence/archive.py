"""Save a fitted model to one file, and load it.

The file is a safetensors file with a JSON header (see `schema`): arrays, numbers and words, never code. Loading
runs nothing from the file and imports nothing that it names. The header carries a SHA-256 of the whole content, so
a file loads as it was saved or is refused. Anybody can make a file with a right SHA-256, so values are looked at too
(`values`): what loads is a model that a fit can have left.

Equal models give equal bytes.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from armillary import __version__
from armillary.durable.whole import whole_file
from armillary.exceptions import ArchiveError, ArmillaryError
from armillary.persistence.renamed import Content, brought_up
from armillary.persistence.schema import (
    FORMAT,
    LABELS,
    MODELS,
    NEED_LABELS,
    OBSERVERS,
    READABLE,
    SCHEMA_VERSION,
    Array,
    Json,
    check_fields,
    class_named,
    defaults_of,
    fitted_attributes,
    from_json,
    saved_state,
    to_json,
)
from armillary.validation import check_flag, check_path

_MOST_TOLD = 1000  # characters of a sentence about a parameter
_LONGEST_HEADER = 99_000_000  # of 100 million, for what else is there: names and shapes of arrays
_METADATA_KEY = "armillary"
_SAVE_AGAIN = "Save the model again, or fetch the file again from where it came."
_FIT_AGAIN = "Leave fitted attributes as fit made them; fit again."
_UPGRADE = "Upgrade: pip install --upgrade armillary."


def save(model: object, path: str | os.PathLike[str], *, keep_labels: bool = True) -> None:
    """Save a fitted model to one file.

    The file appears whole or not at all: it is written beside its place and then moved there, and what was there
    before stays until that moment. Not part of a model, so not saved: `callbacks`, which watch a fit, and what
    scikit-learn keeps in private attributes, e.g. by `set_output`.

    Parameters
    ----------
    model : a fitted estimator of Armillary
    path : str or os.PathLike
        An existing file is replaced. Any ending will do; ".safetensors" tells other tools what it is.
    keep_labels : bool, default=True
        False leaves `labels_` out, which takes 4 bytes for each row of the fit: the model comes back without it, and
        predicts and goes on learning as before. Said here and not at the fit, which needs labels for its own work.

    Raises
    ------
    ArchiveError
        The model is not fitted or not one of Armillary's, its fitted attributes are not those of a fit, or one of its
        parameters has no place in a file or is none that `fit` takes.
    OSError
        The file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import armillary
    >>> model = armillary.SphericalKMeans(2, random_state=0).fit([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> path = tempfile.mkdtemp() + "/model.safetensors"
    >>> armillary.save(model, path)
    >>> armillary.load(path).n_clusters_
    2
    """
    header, tensors = _described(model, keep_labels=check_flag(keep_labels, "keep_labels", "save"))
    with whole_file(path) as stream:
        stream.write(_packed(header, tensors))


def model_bytes(model: object) -> bytes:
    """What `save` would write to a file."""
    return _packed(*_described(model))


def load(path: str | os.PathLike[str]) -> Any:
    """Load a model that `save` wrote.

    It predicts with the same bits as the model that was saved, and goes on with `partial_fit` as that would have.

    Parameters
    ----------
    path : str or os.PathLike

    Returns
    -------
    model : a fitted estimator

    Raises
    ------
    ArchiveError
        The file is not a saved model, is damaged, comes from a later release, or holds what no fit can have left.
    OSError
        The file cannot be read, e.g. FileNotFoundError.

    Examples
    --------
    >>> import tempfile
    >>> import armillary
    >>> path = tempfile.mkdtemp() + "/model.safetensors"
    >>> armillary.save(armillary.DPvMFMeans(0.5).fit([[1.0, 0.0], [0.0, 1.0]]), path)
    >>> armillary.load(path).predict([[0.9, 0.1]])
    array([0], dtype=int32)
    """
    file = Path(check_path(path, "load"))
    return _rebuilt(*_unpacked(file), file)


# ------------------------------------------------------------------------------------- model <-> header, tensors


def _described(model: Any, *, keep_labels: bool = True) -> tuple[dict[str, Json], dict[str, Array]]:
    """A fitted model as header and tensors."""
    name = type(model).__name__
    if name not in MODELS or type(model) is not class_named(name):
        raise ArchiveError(
            f"save takes a fitted model of one of the classes {', '.join(MODELS)}; got an object of type {name}. "
            "Only these come back from a file as they were; a subclass would come back as its parent."
        )
    model = copy.copy(model)  # as it is now: another thread may be teaching it
    values = fitted_attributes(model)
    if not values:
        raise ArchiveError(f"save takes a fitted model; this {name} has no fitted attributes. Call fit first.")
    if not keep_labels:
        if name in NEED_LABELS:
            raise ArchiveError(
                f"`keep_labels` of save must be True for a {name}, whose other attributes are held against its "
                "labels; got False. Leave it out."
            )
        values.pop(LABELS, None)
    elif LABELS not in values and name not in NEED_LABELS and any(one.name == LABELS for one in MODELS[name].fields):
        raise ArchiveError(
            f"A fitted {name} must have `{LABELS}` to be saved with them; this model has none, as one that was saved "
            "without. Give save keep_labels=False."
        )
    state = saved_state(model)
    check_fields(name, values, state, "this model", _FIT_AGAIN, has_labels=keep_labels)
    _check_values(name, vars(model), values, state, "this model", _FIT_AGAIN)
    tensors: dict[str, Array] = {}
    params: dict[str, Json] = {}
    for parameter, default in defaults_of(type(model)).items():
        if parameter in OBSERVERS:
            continue
        try:
            params[parameter] = to_json(getattr(model, parameter), f"params/{parameter}", tensors)
        except TypeError as error:
            raise ArchiveError(
                f"`{parameter}` of {name} must be made of numbers, strings, None and numeric arrays to be saved; got "
                f"a value of type {error}. Replace it before saving, e.g. "
                f"model.set_params({parameter}={None if default is inspect.Parameter.empty else default!r})."
            ) from error
    _check_parameters(model, "save", "this model")
    header: dict[str, Json] = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "armillary_version": __version__,
        "class": name,
        "params": params,
        "fields": {field: to_json(value, field, tensors) for field, value in values.items()},
        "state": {field: to_json(value, f"state/{field}", tensors) for field, value in state.items()},
    }
    if not keep_labels:
        header["has_labels"] = False
    return header, {path: _little_endian(tensor) for path, tensor in tensors.items()}


def _rebuilt(header: dict[str, Any], tensors: dict[str, Array], file: Path) -> Any:
    """The fitted model behind header and tensors; every name and value is checked against the schema."""
    name, writer = header.get("class"), header.get("armillary_version")
    if not isinstance(name, str) or name not in MODELS:
        raise ArchiveError(
            f"load knows the classes {', '.join(MODELS)}; '{file}' holds {name!r}, saved by armillary {writer}. "
            f"{_UPGRADE}"
        )
    version = header["schema_version"]
    titles = ("params", "fields", "state") if version > 1 else ("params", "fields")
    parts = [_decoded(header.get(part), tensors, part, version, file) for part in titles]
    name, params, fields, state = brought_up(Content(name, *parts), version)
    model_class = class_named(name)
    defaults = {key: value for key, value in defaults_of(model_class).items() if key not in OBSERVERS}
    for parameter in params:
        if parameter not in defaults:
            raise ArchiveError(
                f"`{parameter}` is no parameter of {name} in armillary {__version__}; '{file}' has one, saved by "
                f"armillary {writer}. {_UPGRADE}"
            )
    for parameter, default in defaults.items():
        # one with a default may be younger than the file
        if default is inspect.Parameter.empty and parameter not in params:
            raise ArchiveError(f"{name} needs its parameter `{parameter}`; '{file}' has none. {_SAVE_AGAIN}")
    for tensor in tensors:  # those that something refers to were taken out
        raise ArchiveError(f"`{tensor}` is no fitted attribute of {name}; '{file}' has one. {_SAVE_AGAIN}")
    has_labels = header.get("has_labels") is not False or name in NEED_LABELS
    check_fields(name, fields, state, f"'{file}'", _SAVE_AGAIN, has_labels=has_labels)
    model = model_class(**params)
    _check_values(name, vars(model), fields, state, f"'{file}'", _SAVE_AGAIN)
    for field, value in fields.items():
        setattr(model, field, _attribute(value))
    if MODELS[name].state:
        model._saved_state = model_class._state_kind(**{field: _attribute(value) for field, value in state.items()})
    _check_parameters(model, "load", f"'{file}'")
    return model


def _attribute(value: Any) -> Any:
    """Names are an array of objects in a model, and a list in a file."""
    return np.array(value, dtype=object) if isinstance(value, list) else value


def _check_values(
    name: str,
    params: Mapping[str, Any],
    fields: Mapping[str, Any],
    state: Mapping[str, Any],
    place: str,
    way_out: str,
) -> None:
    # rules know densities and trees, which take a second to import: not before a model is at hand
    from armillary.persistence.values import check_values

    check_values(name, params, fields, state, place, way_out)


def _check_parameters(model: Any, who: str, place: str) -> None:
    """Refuse parameters that no fit would take: whoever goes on with the model would be told so much later."""
    try:
        model._check_parameters()
    except (ArmillaryError, OverflowError, RecursionError) as error:
        told = f"{str(error).rstrip('.')}."
        if len(told) > _MOST_TOLD:  # what came may be as long as the file
            told = f"{told[:_MOST_TOLD]} ..."
        raise ArchiveError(
            f"{who} takes models with parameters that `fit` takes; {place} has others. {told}"
        ) from error


def _decoded(part: Any, tensors: dict[str, Array], title: str, version: int, file: Path) -> dict[str, Any]:
    """One of the objects in the header with its values turned back; tensors used are taken out of `tensors`."""
    try:
        return {name: from_json(value, tensors) for name, value in part.items()}
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise ArchiveError(
            f"load reads `{title}` as schema version {version} writes it; '{file}' has something else there. "
            f"{_SAVE_AGAIN}"
        ) from error


def _little_endian(array: Array) -> Array:
    """In C order and with the byte order of the file, so that memory and file hold the same bytes."""
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


# -------------------------------------------------------------------------------------- header, tensors <-> bytes


def _packed(header: dict[str, Json], tensors: dict[str, Array], beside: Mapping[str, str] | None = None) -> bytes:
    """The content of a file; `beside` has further entries of its metadata, which `load` passes over."""
    text = _text({**header, "sha256": _digest(header, tensors)})
    if len(text) > _LONGEST_HEADER:  # safetensors would write it, and not read it
        raise ArchiveError(
            f"A header may have at most 100 MB; the parameters and feature names of this model have {len(text):,} "
            "characters. Give long parameters as arrays, or fit without feature names."
        )
    return safetensors.numpy.save(tensors, {**(beside or {}), _METADATA_KEY: text})


def _unpacked(file: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Header and tensors of a file, equal to what was packed."""
    try:
        with safetensors.safe_open(file, framework="numpy") as archive:
            # a large file from elsewhere is refused by its header, before its tensors are read
            header = _header((archive.metadata() or {}).get(_METADATA_KEY, ""), file)
            tensors = {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118
    except OSError:
        _beginning(file)  # says which file
        raise
    except (safetensors.SafetensorError, TypeError) as error:  # TypeError: a dtype that NumPy lacks
        if _beginning(file)[8:] != b"{":
            raise ArchiveError(
                f"load reads files that armillary.save wrote; '{file}' is not a safetensors file. Check the path."
            ) from error
        raise ArchiveError(
            f"load reads whole files; '{file}' is cut short or damaged ({error}). {_SAVE_AGAIN}"
        ) from error
    said = header.pop("sha256", None)
    try:
        is_intact = said == _digest(header, tensors)
    except (ValueError, RecursionError):  # numbers or depths that `_text` never writes
        is_intact = False
    if not is_intact:
        raise ArchiveError(
            f"load compares a file with the SHA-256 in its header; '{file}' differs, so it was damaged or edited after "
            f"it was saved. {_SAVE_AGAIN}"
        )
    return header, tensors


def _beginning(file: Path) -> bytes:
    """The first nine bytes; the OSError that opening the file would raise, where it cannot be read."""
    descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        return os.read(descriptor, 9)
    except OSError as error:  # a folder: reading does not know its name
        raise OSError(error.errno, error.strerror, str(file)) from error
    finally:
        os.close(descriptor)


def _header(text: str, file: Path) -> dict[str, Any]:
    """The header of one of our files, of a version that we can read; its content is not checked yet."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ArchiveError(
            f"load reads files that armillary.save wrote; '{file}' is a safetensors file without Armillary's header. "
            "Check the path."
        )
    version = header.get("schema_version")
    if type(version) is not int or version not in READABLE:
        raise ArchiveError(
            f"load reads schema versions {' and '.join(map(str, READABLE))}; '{file}' has version {version!r}, "
            f"saved by armillary {header.get('armillary_version')}. {_UPGRADE}"
        )
    return header


def _digest(header: dict[str, Json], tensors: dict[str, Array]) -> str:
    """SHA-256 of the header and of each tensor with its name, dtype and shape."""
    digest = hashlib.sha256(_text(header).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {_name_of(tensor.dtype)} {tensor.shape} ".encode())
        digest.update(tensor.data)
    return digest.hexdigest()


@cache
def _name_of(dtype: np.dtype[Any]) -> str:
    """The name of a dtype: NumPy puts it together each time, which takes longer than to hash a small tensor."""
    return str(dtype.name)


def _text(header: dict[str, Json]) -> str:
    """One text for one header: sorted, ASCII, floats with all their digits."""
    return _ENCODER.encode(header)


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)  # json.dumps makes one each time
