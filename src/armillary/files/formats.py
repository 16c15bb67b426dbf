"""The formats of vector files: their names, endings, and how the first bytes tell them apart. Imports nothing heavy."""

from __future__ import annotations

from pathlib import PurePath

from armillary.exceptions import InputError

# name -> what it is, for help and completion
FORMATS = {
    "npy": "one NumPy array",
    "npz": "several NumPy arrays, or a SciPy sparse matrix",
    "csv": "a table with commas (or semicolons, tabs, spaces), with or without a header",
    "tsv": "a table with tabs",
    "jsonl": 'JSON lines: [..] or {"id": .., "text": .., "vector": [..]}',
    "parquet": "columns of numbers, or one column of lists",
    "arrow": "the same in an Arrow or Feather file",
    "safetensors": "named arrays, as embedders write them",
    "mtx": "Matrix Market, sparse or dense",
    "svmlight": "sparse rows as index:value pairs",
}
# those that are read and not written
READ_ONLY = {
    "word2vec": "words with their vectors, as word2vec, GloVe and fastText write them",
    "fvecs": "float32 vectors, each after its length",
    "bvecs": "the same of bytes",
}

_ENDINGS = {
    ".npy": "npy",
    ".npz": "npz",
    ".csv": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".safetensors": "safetensors",
    ".mtx": "mtx",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".vec": "word2vec",
    ".w2v": "word2vec",
    ".fvecs": "fvecs",
    ".bvecs": "bvecs",
}
# Formats that are not read, and what to do with them.
_WAYS_OUT = {
    (".xlsx", ".xls", ".ods"): "Save the sheet as CSV UTF-8.",
    (".pkl", ".pickle", ".pt", ".pth", ".joblib"): (
        "Reading it can run code. Save a frame by df.to_parquet(path), an array by numpy.save(path, X)."
    ),
    (".h5", ".hdf5", ".mat"): "Save the array in it by numpy.save(path, X).",
    (".docx", ".pdf"): "Save its texts as a txt file, one in each line.",
}
COMPRESSED = (".gz", ".bz2", ".xz")


def check_format(name: str, *, is_written: bool = False) -> str:
    """`name`, if it is one of `FORMATS`, or of `READ_ONLY` where nothing is written."""
    if name in FORMATS or (name in READ_ONLY and not is_written):
        return name
    raise InputError(f"A format must be one of {', '.join(FORMATS)}; got '{name}'.")


def format_of(path: str) -> str:
    """The format that the ending of a path stands for; endings of compressed files are looked through."""
    endings = [ending.lower() for ending in PurePath(path).suffixes]
    if endings and endings[-1] in COMPRESSED:
        endings.pop()
    found = _ENDINGS.get(endings[-1]) if endings else None
    if found is None:
        has = f"'{endings[-1]}'" if endings else "no ending"
        for known, way in _WAYS_OUT.items():
            if endings and endings[-1] in known:
                raise InputError(f"'{path}' must be of another format than {has}, which is not read here. {way}")
        raise InputError(
            f"The ending of '{path}' must tell its format; it has {has}, and those known are "
            f"{', '.join(_ENDINGS)} (also with {', '.join(COMPRESSED)}). "
            f"Say it by --format, one of {', '.join(FORMATS)}."
        )
    return found


def sniffed(first: bytes) -> str:
    """The format that the first bytes of a stream speak of."""
    marks = ((b"\x93NUMPY", "npy"), (b"PK\x03\x04", "npz"), (b"PAR1", "parquet"), (b"ARROW1", "arrow"))
    for mark, name in marks:
        if first.startswith(mark):
            return name
    if first.startswith(b"%%MatrixMarket"):
        return "mtx"
    if len(first) > 8 and first[8:9] == b"{" and int.from_bytes(first[:8], "little") < 1 << 27:
        return "safetensors"
    text = first.lstrip()
    if text[:1] in (b"{", b"["):
        return "jsonl"
    lines = [line for line in text.split(b"\n") if not line.startswith(b"#")]
    cells = lines[0].split() if lines else []
    if len(cells) > 1 and all(b":" in cell for cell in cells[1:3]):
        return "svmlight"
    return "csv"
