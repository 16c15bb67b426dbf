"""Texts as vectors, by a model of sentence-transformers that is on disk. The home of that library.

A model folder is data, never code: a folder whose configuration asks for code of its own, whose modules are not those
of the library, or whose weights are pickles (which run code when they are read) is refused before the library sees it.
Nothing is ever downloaded: names are looked up in the cache of models on this machine.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.exceptions import InputError, InputTypeError, MissingExtraError
from armillary.texts.kept_vectors import keep, kept

_WHO = "embed_texts"
_AT_ONCE = 512  # texts between two looks at the clock
_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".npz")
_CODE = (".py", ".so", ".pyc", ".dll")
_MODULES = "modules.json"
_LIBRARY = "sentence_transformers."
_HASHED_AT_ONCE = 1 << 22

FloatRows = npt.NDArray[np.float32]
Advance = Callable[[float], None]


def embed_texts(
    texts: Sequence[str], model: str | os.PathLike[str], *, is_kept: bool = False, advance: Advance | None = None
) -> FloatRows:
    """Vectors of texts by a sentence-transformers model on this machine.

    Parameters
    ----------
    texts : sequence of n strings
    model : str or os.PathLike
        A folder, or the name of a model that was fetched before (it is looked up in the cache of HuggingFace models).
        Nothing is downloaded. The weights must be safetensors, and the model may bring no code of its own.
    is_kept : bool, default=False
        Keep the vectors, not the texts, in the user's cache folder under a digest of texts and model, readable by the
        user alone, and take them from there the next time.
    advance : callable, optional
        Called with the number of texts done since the last call.

    Returns
    -------
    rows : array of float32 of shape (n, D)
        Unit rows.

    Raises
    ------
    InputError
        There is no such model on disk, or it is one that could run code.
    MissingExtraError
        sentence-transformers is not installed.

    Examples
    --------
    >>> from armillary.texts import embed_texts
    >>> rows = embed_texts(["a text"], "sentence-transformers/all-MiniLM-L6-v2")  # doctest: +SKIP
    """
    if isinstance(texts, str | bytes) or not hasattr(texts, "__len__") or not len(texts):
        came = type(texts).__name__ if isinstance(texts, str | bytes) or not hasattr(texts, "__len__") else "none"
        raise InputTypeError(f"`texts` of {_WHO} must be a sequence of strings; got {came}. Give a list of texts.")
    said = [text if isinstance(text, str) else "" for text in list(texts)]
    folder = model_folder(model)
    check_model_folder(folder)
    key = _digest(said, folder) if is_kept else ""
    done = kept(key, len(said)) if is_kept else None
    if done is None:
        done = _encoded(said, folder, advance or (lambda _: None))
        if is_kept:
            keep(key, done)
    return done


# ------------------------------------------------------------------------------------------------- which model


def model_folder(model: str | os.PathLike[str]) -> Path:
    """The folder of a model: the path given, or where HuggingFace's cache has a model of this name."""
    if not isinstance(model, str | os.PathLike) or not os.fspath(model):
        raise InputTypeError(
            f"`model` of {_WHO} must be a folder or a name; got {model!r}. Give the folder of a saved model."
        )
    name = os.fsdecode(os.fspath(model))
    if os.path.isdir(name):
        return Path(name)
    for known in (name, f"sentence-transformers/{name}"):
        found = _in_cache(known)
        if found is not None:
            return found
    raise InputError(
        f"The model '{name}' must be on this machine: a folder, or in {_hub()}; it is in neither, and nothing is "
        f"downloaded here. Fetch it yourself (hf download {name}), or give its folder."
    )


def _hub() -> Path:
    """Where HuggingFace keeps models."""
    for variable, under in (("HF_HUB_CACHE", ""), ("HUGGINGFACE_HUB_CACHE", ""), ("HF_HOME", "hub")):
        if os.environ.get(variable):
            return Path(os.environ[variable], under)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser(), "huggingface", "hub")


def _in_cache(name: str) -> Path | None:
    if name.count("/") > 1 or ".." in name or name.startswith(("/", ".")):
        return None
    home = _hub() / f"models--{name.replace('/', '--')}"
    reference = home / "refs" / "main"
    if reference.is_file():
        found = home / "snapshots" / reference.read_text().strip()
        return found if found.is_dir() else None
    return next(iter(sorted(path for path in home.glob("snapshots/*") if path.is_dir())), None)


def check_model_folder(folder: Path) -> None:
    """Refuse a folder that could run code: only safetensors weights, only modules of the library, no custom code."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    if not any(path.suffix == ".safetensors" for path in files):
        raise InputError(
            f"The model in '{folder}' must have its weights as safetensors; it has none. Save it again: "
            "model.save_pretrained(path, safe_serialization=True)."
        )
    for path in files:
        if path.suffix.lower() in _PICKLES and not any(one.suffix == ".safetensors" for one in path.parent.iterdir()):
            raise InputError(
                f"The model in '{folder}' must have all weights as safetensors; '{path.relative_to(folder)}' is "
                "pickled, and reading it could run code. Save it again with safetensors."
            )
        if path.suffix.lower() in _CODE:
            raise InputError(
                f"The model in '{folder}' must be data alone; it has '{path.relative_to(folder)}'. Code from model "
                "folders is never run here: embed the texts yourself and give the vectors."
            )
        if path.suffix == ".json":
            _check_configuration(folder, path)


def _check_configuration(folder: Path, path: Path) -> None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InputError(
            f"The model in '{folder}' must be whole; '{path.relative_to(folder)}' does not read as JSON ({error}). "
            "Fetch it again."
        ) from error
    if isinstance(content, dict) and (content.get("auto_map") or content.get("custom_pipelines")):
        raise InputError(
            f"The model in '{folder}' must be data alone; '{path.relative_to(folder)}' asks for code of its own "
            "(auto_map). Such code is never run here: embed the texts yourself and give the vectors."
        )
    if path.name == _MODULES and isinstance(content, list):
        for module in content:
            _check_module(folder, module)


def _check_module(folder: Path, module: Any) -> None:
    kind = str(module.get("type", "")) if isinstance(module, dict) else ""
    if not kind.startswith(_LIBRARY):
        raise InputError(
            f"The modules of the model in '{folder}' must be those of sentence-transformers; one is '{kind}'. Others "
            "would be code from elsewhere: embed the texts yourself and give the vectors."
        )
    place = (folder / str(module.get("path", ""))).resolve()
    if place != folder.resolve() and folder.resolve() not in place.parents:
        raise InputError(
            f"The modules of the model in '{folder}' must lie in it; one is at '{module.get('path')}'. Save it again."
        )


# ------------------------------------------------------------------------------------------------------ vectors


def _encoded(texts: list[str], folder: Path, advance: Advance) -> FloatRows:
    model = _loaded(folder)
    parts = []
    for start in range(0, len(texts), _AT_ONCE):
        block = texts[start : start + _AT_ONCE]
        rows = model.encode(block, convert_to_numpy=True, normalize_embeddings=True, show_progress_bar=False)
        parts.append(np.asarray(rows, dtype=np.float32).reshape(len(block), -1))
        advance(len(block))
    return np.concatenate(parts)


def _loaded(folder: Path) -> Any:
    # read by the libraries when they are imported; nothing here needs the network
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise MissingExtraError.of("--embed", "sentence-transformers", "embed") from error
    return SentenceTransformer(
        str(folder.resolve()),
        local_files_only=True,
        trust_remote_code=False,
        model_kwargs={"use_safetensors": True},
    )


def _digest(texts: list[str], folder: Path) -> str:
    """Of the texts in their order and of every file of the model."""
    told = hashlib.sha256(b"armillary vectors of texts 1\n")
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        told.update(f"{path.relative_to(folder)}:{path.stat().st_size}\n".encode())
        with path.open("rb") as stream:
            while chunk := stream.read(_HASHED_AT_ONCE):
                told.update(chunk)
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        told.update(f"{len(content)}:".encode() + content)
    return told.hexdigest()
