"""From texts to named topics on the command line; texts that are kept out; models that could run code."""

from __future__ import annotations

import csv
import json
import os
import re
import stat
import sys
import types

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from armillary.exceptions import InputError
from armillary.texts import WordWeights, tfidf_rows

TOPICS = {
    "coffee": ["espresso", "roast", "beans", "barista", "latte", "crema", "grinder", "brew", "filter", "aroma"],
    "garden": ["soil", "roses", "compost", "seeds", "pruning", "hedge", "lawn", "tulip", "spade", "mulch"],
    "football": [
        "goal",
        "striker",
        "referee",
        "penalty",
        "offside",
        "midfield",
        "keeper",
        "league",
        "tackle",
        "corner",
    ],
}


@pytest.fixture(scope="session")
def corpus():
    """180 texts of three topics that share no word but those of all, and which."""
    draws = np.random.default_rng(0)
    truth = np.repeat(np.arange(3), 60)
    draws.shuffle(truth)
    words = list(TOPICS.values())
    texts = [f"I think that the {' '.join(draws.choice(words[topic], 5, replace=False))} was fine" for topic in truth]
    return texts, truth


@pytest.fixture
def texts_csv(tmp_path, corpus):
    with open(tmp_path / "texts.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "stars", "body"])
        writer.writerows([f"t{row}", row % 5, text] for row, text in enumerate(corpus[0]))
    return tmp_path / "texts.csv"


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


def read_lines(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def agrees(labels, truth):
    """Whether labels are the truth under other numbers."""
    return len({*zip(np.asarray(labels).tolist(), truth.tolist(), strict=True)}) == len(set(truth.tolist()))


def test_from_a_csv_of_texts_to_named_topics_in_one_command_and_one_screen(cli, texts_csv, tmp_path, corpus):
    done = cli("cluster", "texts.csv", "--text-column", "body")
    assert done.code == 0
    said = done.out.splitlines()
    assert len(said) + len(done.err.splitlines()) <= 24  # a screen
    assert max(map(len, said)) <= 200
    assert "180 texts from 'texts.csv': texts from column 'body'; ids from column 'id'; not used: 'stars'" in done.err
    told = summary(tmp_path / "texts-clusters")
    assert told["n_clusters"] == 3
    assert told["data"]["texts_are_in"] == ["labels.csv", "summary.json", "report.html", "words.json"]
    lines = read_lines(tmp_path / "texts-clusters" / "labels.csv")
    assert list(lines[0]) == ["row", "id", "text", "cluster", "name"]
    assert agrees([line["cluster"] for line in lines], corpus[1])
    for line in told["clusters"]:
        own = next(words for words in TOPICS.values() if line["words"][0] in words)
        assert set(line["name"].split(", ")) <= set(own)  # three words of one topic
        assert line["name"] in done.out
        assert len(line["representatives"]) == 3
        assert line["representatives"][0]["text"] == corpus[0][line["representatives"][0]["row"]]
    page = (tmp_path / "texts-clusters" / "report.html").read_text()
    assert told["clusters"][0]["name"] in page
    assert '"membership":"' in page  # of the estimator that chose the model
    assert "labels.csv holds the texts of all rows, report.html the beginning of each" in done.err


def test_the_python_lines_make_the_same_rows(cli, texts_csv, tmp_path):
    cli("cluster", "texts.csv", "--text-column", "body", "-k", "3", "--no-report")
    told = summary(tmp_path / "texts-clusters")
    assert told["data"]["vectors_of_texts"] == "tfidf"
    names = {}
    exec(told["python"], names)
    assert np.array_equal(names["labels"], np.load(tmp_path / "texts-clusters" / "labels.npy"))


@pytest.mark.parametrize("kind", ["tsv", "parquet", "jsonl", "strings.jsonl", "txt", "txt.gz"])
def test_every_kind_of_file(cli, tmp_path, corpus, kind):
    texts, truth = corpus
    path = tmp_path / f"docs.{kind}"
    match kind:
        case "tsv":
            path.write_text("body\tprice\n" + "".join(f"{text}\t3\n" for text in texts))
        case "parquet":
            pyarrow.parquet.write_table(pa.table({"body": texts, "year": list(range(180))}), path)
        case "jsonl":
            path.write_text("".join(json.dumps({"body": text, "n": 1}) + "\n" for text in texts))
        case "strings.jsonl":
            path.write_text("".join(json.dumps(text) + "\n" for text in texts))
        case "txt":
            path.write_text("\n".join(texts) + "\n")
        case "txt.gz":
            import gzip

            path.write_bytes(gzip.compress("\n".join(texts).encode()))
    column = [] if "txt" in kind or "strings" in kind else ["--text-column", "body"]
    done = cli("cluster", path.name, *column, "-k", "3", "--no-report", "-o", "out")
    assert done.code == 0, done.err
    assert agrees(np.load(tmp_path / "out" / "labels.npy"), truth)


def test_an_empty_text_is_flagged(cli, tmp_path, corpus):
    (tmp_path / "docs.txt").write_text("\n".join([*corpus[0][:60], "", *corpus[0][60:]]) + "\n")
    done = cli("cluster", "docs.txt", "-k", "3", "--no-report")
    assert done.code == 0
    labels = np.load(tmp_path / "docs-clusters" / "labels.npy")
    assert np.flatnonzero(labels == -1).tolist() == [60]
    assert (
        "1 of 181 texts has none of the words that are weighed, row 60, counted from 0: it gets the label -1."
        in done.err
    )


@pytest.mark.parametrize(("texts", "have"), [(["only one"], "1 text has"), (["one", "the two"], "2 texts have")])
def test_texts_without_two_words(texts, have):
    sentence = f"must have at least two words in all; {have} fewer that are no stop words. Check the column"
    with pytest.raises(InputError, match=re.escape(sentence)):
        tfidf_rows(texts)


def test_a_topic_of_more_than_half_of_the_texts_keeps_its_words():
    topics = ["parcel late courier", "refund card bank", "password login email"]
    texts = [topics[0]] * 60 + [topics[1]] * 25 + [topics[2]] * 15
    rows, words = tfidf_rows(texts)
    assert (np.diff(rows.indptr) == 3).all()  # those of the first were left out, and its texts had no cluster
    assert sorted(words) == sorted(" ".join(topics).split())
    again = [f"order {text} {number % 7} apples{number % 50}" for number, text in enumerate(texts)]
    assert "order" not in tfidf_rows(again)[1]  # of every text, and all have others


def test_new_texts_are_placed_by_the_words_of_the_first(cli, texts_csv, tmp_path, corpus):
    assert cli("cluster", "texts.csv", "--text-column", "body", "-k", "3", "--no-report").code == 0
    folder = tmp_path / "texts-clusters"
    assert summary(folder)["data"]["texts_are_in"] == ["labels.csv", "summary.json", "words.json"]
    done = cli("predict", "texts-clusters", "texts.csv", "--text-column", "body", "-o", "again.csv")
    assert done.code == 0, done.err
    assert read_lines(tmp_path / "again.csv") == read_lines(folder / "labels.csv")
    known = WordWeights.load(folder / "words.json")
    rows, vocabulary = tfidf_rows(corpus[0])
    assert (known.rows(corpus[0]) != rows).nnz == 0
    assert known.vocabulary == vocabulary
    (tmp_path / "new.txt").write_text("a tulip\nnothing of it\npenalty for the keeper\n")
    done = cli("predict", "texts-clusters", "new.txt", "-o", "new.csv")
    assert "1 of 3 texts has none of the words that are weighed, row 1, counted from 0" in done.err
    lines = read_lines(tmp_path / "new.csv")
    assert [line["cluster"] == "-1" for line in lines] == [False, True, False]
    assert lines[0]["name"] != lines[2]["name"]
    (tmp_path / "other.txt").write_text("nothing of it\nnor here\n")
    done = cli("predict", "texts-clusters", "other.txt", "-o", "other.csv")
    assert "2 of 2 texts have none of the words that are weighed (or are empty)" in done.err
    assert [line["cluster"] for line in read_lines(tmp_path / "other.csv")] == ["-1", "-1"]


def test_sentences_about_texts_that_cannot_be_placed(cli, texts_csv, rows_file, tmp_path):
    assert cli("cluster", "rows.npy", "-k", "3", "--no-report", "-o", "vectors").code == 0
    assert cli("cluster", "texts.csv", "--text-column", "body", "-k", "3", "--no-report", "--no-texts").code == 0
    assert not (tmp_path / "texts-clusters" / "words.json").exists()
    of_vectors = "Texts can be placed by a folder that cluster made of texts; 'vectors' is none. Embed texts.csv as the"
    assert cli("predict", "vectors", "texts.csv", "--text-column", "body").sentence.startswith(of_vectors)
    without = (
        "Texts can be placed by a folder with their words, words.json; 'texts-clusters' has none, since it was made"
    )
    assert cli("predict", "texts-clusters", "texts.csv", "--text-column", "body").sentence.startswith(without)
    for content in ('{"words": ["a", "b"], "idf": [1.0]}', "[]", "{", '{"words": 3, "idf": 4}'):
        (tmp_path / "texts-clusters" / "words.json").write_text(content)
        assert cli("predict", "texts-clusters", "texts.csv", "--text-column", "body").sentence == (
            "'texts-clusters/words.json' must be words with their weights, as cluster writes them beside its model; "
            "it is not. Cluster the texts again."
        )


def test_compare_and_suggest_take_texts(cli, texts_csv, tmp_path, corpus):
    done = cli("compare", "texts.csv", "--text-column", "body", "-k", "3", "-m", "skmeans", "-o", "compared", "--json")
    assert done.code == 0, done.err
    assert done.data["models"][0]["n_clusters"] == 3
    assert not any(corpus[0][0].encode() in path.read_bytes() for path in (tmp_path / "compared").iterdir())
    done = cli("suggest", "texts.csv", "--text-column", "body", "--max-clusters", "5", "--json")
    assert done.data["advice"]["command"] == "armillary cluster texts.csv --text-column body"
    assert done.data["advice"]["n_clusters"] == 3


def test_a_table_with_a_vector_is_still_a_table_of_vectors(cli, tmp_path, mixture):
    X = mixture[0][:, :3]
    lines = "".join(f"{x},{y},{z},some words of row {row}\n" for row, (x, y, z) in enumerate(X))
    (tmp_path / "rows.csv").write_text("x,y,z,body\n" + lines)
    done = cli("cluster", "rows.csv", "--text-column", "body", "-k", "3", "--no-report")
    assert "600 vectors of 3 numbers" in done.err
    assert "vectors from 3 columns of numbers" in done.err


def test_no_texts_leaves_them_out(cli, texts_csv, tmp_path, corpus):
    done = cli("cluster", "texts.csv", "--text-column", "body", "-k", "3", "--no-texts")
    assert done.code == 0
    assert "holds the texts" not in done.err
    folder = tmp_path / "texts-clusters"
    assert list(read_lines(folder / "labels.csv")[0]) == ["row", "id", "cluster", "name"]
    for path in folder.iterdir():
        content = path.read_bytes()
        assert not any(text.encode() in content for text in corpus[0])
    assert summary(folder)["data"]["texts_are_in"] == []
    assert summary(folder)["clusters"][0]["name"]  # words of the texts are in it in any case


def test_names_that_the_user_gives(cli, texts_csv, tmp_path):
    (tmp_path / "names.csv").write_text("cluster,name\n1,my own name\n")
    (tmp_path / "names.json").write_text('{"1": "my own name"}')
    (tmp_path / "names.txt").write_text("\nmy own name\n")
    for kind in ("csv", "json", "txt"):
        done = cli(
            "cluster", "texts.csv", "--text-column", "body", "-k", "3", "--no-report", "--force",
            "--label-names", f"names.{kind}",
        )  # fmt: skip
        names = {line["cluster"]: line["name"] for line in summary(tmp_path / "texts-clusters")["clusters"]}
        assert names[1] == "my own name"
        assert names[0].count(",") == 2  # words for those without one
        assert "my own name" in done.out
    (tmp_path / "names.csv").write_text("cluster,name\n9,nobody\n")
    done = cli(
        "cluster", "texts.csv", "--text-column", "body", "-k", "3", "--no-report", "--force",
        "--label-names", "names.csv",
    )  # fmt: skip
    assert done.code == 2
    assert done.sentence == (
        "--label-names must name clusters that are there, 0 to 2; got 9. Run without it once to see the clusters."
    )


def test_a_vocabulary_names_sparse_rows(cli, tmp_path, corpus):
    import scipy.sparse as sp

    from armillary.texts import tfidf_rows

    rows, vocabulary = tfidf_rows(corpus[0])
    sp.save_npz(tmp_path / "counts.npz", rows)
    (tmp_path / "words.txt").write_text("\n".join(vocabulary) + "\n")
    cli("cluster", "counts.npz", "-k", "3", "--no-report", "--vocabulary", "words.txt")
    line = summary(tmp_path / "counts-clusters")["clusters"][0]
    assert any(set(line["name"].split(", ")) <= set(words) for words in TOPICS.values())


def test_a_folder_of_huggingface_with_texts(cli, tmp_path, mixture):
    """As `Dataset.save_to_disk` writes it: Arrow streams, and which files there are."""
    X, truth = mixture
    folder = tmp_path / "dataset"
    folder.mkdir()
    names = [f"data-0000{number}-of-00002.arrow" for number in range(2)]
    for name, part in zip(names, np.split(np.arange(600), 2), strict=True):
        columns = {"embedding": list(X[part]), "sentence": [f"kind{truth[row]} row {row}" for row in part]}
        table = pa.table(columns)
        with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text("{}")
    done = cli("cluster", "dataset", "--text-column", "sentence", "-k", "5", "--no-report")
    assert done.code == 0, done.err
    assert "Beside the vectors: texts from column 'sentence'." in done.err
    lines = read_lines(tmp_path / "dataset-clusters" / "labels.csv")
    assert [line["text"] for line in lines] == [f"kind{truth[row]} row {row}" for row in range(600)]
    assert agrees([line["cluster"] for line in lines], truth)
    assert {line["name"].split(",")[0] for line in lines} == {f"kind{label}" for label in range(5)}


def test_a_folder_of_huggingface_with_nothing_but_texts(cli, tmp_path, corpus):
    texts, truth = corpus
    folder = tmp_path / "dataset"
    folder.mkdir()
    names = [f"data-0000{number}-of-00002.arrow" for number in range(2)]
    for name, part in zip(names, (texts[:70], texts[70:]), strict=True):
        table = pa.table({"sentence": part})
        with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    done = cli("cluster", "dataset", "-k", "3", "--no-report")
    assert done.code == 0, done.err
    assert agrees(np.load(tmp_path / "dataset-clusters" / "labels.npy"), truth)


def test_maps_and_pictures_for_the_report(cli, texts_csv, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    done = cli("cluster", "texts.csv", "--text-column", "body", "-k", "3", "--map", "umap")
    assert done.sentence == "A map by umap needs umap-learn, which is not installed. Run: pip install umap-learn"
    done = cli("cluster", "texts.csv", "--text-column", "body", "-k", "3", "--map", "globe")
    assert "A map must be one of umap, pacmap" in done.sentence
    assert not (tmp_path / "texts-clusters").exists()
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (90, 90), (1, 2, 3)).save(tmp_path / "one.png")
    (tmp_path / "images.txt").write_text("one.png\n" * 180)
    done = cli("cluster", "texts.csv", "--text-column", "body", "-k", "3", "--images", "images.txt")
    assert done.code == 0, done.err
    assert "data:image/jpeg;base64," in (tmp_path / "texts-clusters" / "report.html").read_text()


# ------------------------------------------------------------------------------------------------------ embedding


class FakeSentenceTransformer:
    """Counts letters: an embedder that needs nothing."""

    made = ()  # what each was made with

    def __init__(self, path, **options):
        type(self).made = (*type(self).made, (path, options))

    def encode(self, texts, **options):
        assert options["normalize_embeddings"] is True
        rows = np.array([[text.count(letter) + 0.01 for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """A model folder, and a library that takes it."""
    module = types.ModuleType("sentence_transformers")
    module.SentenceTransformer = FakeSentenceTransformer
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    monkeypatch.setattr(FakeSentenceTransformer, "made", ())
    monkeypatch.setenv("ARMILLARY_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    folder = tmp_path / "model"
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "config.json").write_text("{}")
    (folder / "1_Pooling" / "config.json").write_text("{}")
    modules = [
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


def test_texts_are_embedded_and_vectors_kept_for_their_owner(cli, texts_csv, tmp_path, fake):
    done = cli("cluster", "texts.csv", "--text-column", "body", "--embed", "model", "-k", "3", "--no-report")
    assert done.code == 0, done.err
    assert "vectors of 26 numbers by 'model'; kept, without the texts, in" in done.err
    assert summary(tmp_path / "texts-clusters")["data"]["vectors_of_texts"] == "model"
    (path, options), = FakeSentenceTransformer.made  # fmt: skip
    assert path == str(fake)
    assert options == {
        "local_files_only": True,
        "trust_remote_code": False,
        "model_kwargs": {"use_safetensors": True},
    }
    (kept,) = (tmp_path / "cache" / "vectors-of-texts").iterdir()
    assert stat.S_IMODE(os.stat(kept).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(kept.parent).st_mode) == 0o700
    assert np.load(kept).shape == (180, 26)
    first = np.load(tmp_path / "texts-clusters" / "labels.npy")
    cli("cluster", "texts.csv", "--text-column", "body", "--embed", "model", "-k", "3", "--no-report", "--force")
    assert cli("predict", "texts-clusters", "texts.csv", "--text-column", "body", "-o", "again.csv").code == 0
    assert read_lines(tmp_path / "again.csv") == read_lines(tmp_path / "texts-clusters" / "labels.csv")
    assert len(FakeSentenceTransformer.made) == 1  # the vectors were there
    assert np.array_equal(first, np.load(tmp_path / "texts-clusters" / "labels.npy"))
    (fake / "model.safetensors").write_bytes(b"other weights")
    cli("cluster", "texts.csv", "--text-column", "body", "--embed", "model", "-k", "3", "--no-report", "--force")
    assert len(FakeSentenceTransformer.made) == 2  # another model


def test_kept_vectors_that_do_not_read_are_made_again(cli, texts_csv, tmp_path, fake):
    from armillary.texts import embed_texts

    rows = embed_texts(["a", "b"], fake, is_kept=True)
    (kept,) = (tmp_path / "cache" / "vectors-of-texts").iterdir()
    kept.write_bytes(kept.read_bytes()[:-3])
    assert np.array_equal(embed_texts(["a", "b"], fake, is_kept=True), rows)
    assert len(FakeSentenceTransformer.made) == 2


def test_no_texts_keeps_no_vectors_either(cli, texts_csv, tmp_path, fake):
    cli("cluster", "texts.csv", "--text-column", "body", "--embed", "model", "-k", "3", "--no-report", "--no-texts")
    assert not (tmp_path / "cache").exists()


def test_a_place_that_cannot_keep_vectors_ends_no_run(fake, tmp_path, monkeypatch):
    from armillary.exceptions import CacheWarning
    from armillary.texts import embed_texts

    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ARMILLARY_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(CacheWarning, match="cannot be kept in"):
        assert embed_texts(["a"], fake, is_kept=True).shape == (1, 26)


def test_a_name_is_looked_up_on_this_machine(fake, tmp_path, monkeypatch):
    from armillary.exceptions import InputError
    from armillary.texts.embedding import model_folder

    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    home = tmp_path / "hub" / "models--sentence-transformers--tiny"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text("abc")
    (home / "snapshots" / "abc").mkdir(parents=True)
    assert model_folder("tiny") == home / "snapshots" / "abc"
    assert model_folder("sentence-transformers/tiny") == home / "snapshots" / "abc"
    for name in ("other", "../tiny", "/no/such"):
        with pytest.raises(InputError, match=r"must be on this machine.*nothing is downloaded here"):
            model_folder(name)


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("config.json", '{"auto_map": {"AutoModel": "x.Y"}}', "asks for code of its own"),
        ("tokenizer_config.json", '{"auto_map": {"AutoTokenizer": ["x.Y", null]}}', "asks for code of its own"),
        ("modules.json", '[{"path": "", "type": "evil.Module"}]', "one is 'evil.Module'"),
        ("modules.json", '[{"path": "../..", "type": "sentence_transformers.models.Dense"}]', "must lie in it"),
        ("1_Pooling/pytorch_model.bin", "pickle", "is pickled, and reading it could run code"),
        ("modeling.py", "import os", "must be data alone; it has 'modeling.py'"),
        ("config.json", "{", "does not read as JSON"),
    ],
)
def test_a_model_that_could_run_code_is_refused(fake, file, content, sentence):
    from armillary.exceptions import InputError
    from armillary.texts import embed_texts

    (fake / file).write_text(content)
    with pytest.raises(InputError, match=sentence):
        embed_texts(["a"], fake)
    assert FakeSentenceTransformer.made == ()


def test_weights_must_be_safetensors(fake):
    from armillary.exceptions import InputError
    from armillary.texts import embed_texts

    (fake / "model.safetensors").rename(fake / "pytorch_model.bin")
    with pytest.raises(InputError, match="must have its weights as safetensors; it has none"):
        embed_texts(["a"], fake)


def test_without_the_library_there_is_a_sentence(cli, texts_csv, fake, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    done = cli("cluster", "texts.csv", "--text-column", "body", "--embed", "model", "-k", "3")
    assert done.sentence == (
        "--embed needs sentence-transformers, which is not installed. Run: pip install 'armillary[embed]'"
    )


@pytest.mark.filterwarnings("ignore")  # what the libraries say of themselves
def test_a_tiny_model_made_here(tmp_path, monkeypatch):
    """The library itself, with a model of random weights and five words."""
    library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    transformers = pytest.importorskip("transformers")
    from armillary.texts import embed_texts

    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "blue", "hat"]))
    base = tmp_path / "base"
    transformers.BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(base)
    config = transformers.BertConfig(
        vocab_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    transformers.BertModel(config).save_pretrained(base, safe_serialization=True)
    models = getattr(library, "models", None) or __import__("sentence_transformers.models", fromlist=["models"])
    word = models.Transformer(str(base), max_seq_length=16)
    made = library.SentenceTransformer(modules=[word, models.Pooling(16)], device="cpu")
    made.save_pretrained(str(tmp_path / "tiny"))
    monkeypatch.setenv("ARMILLARY_CACHE_DIR", str(tmp_path / "cache"))
    texts = ["red hat", "blue hat", "red red hat"]
    rows = embed_texts(texts, tmp_path / "tiny", is_kept=True)
    assert rows.shape == (3, 16)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)
    np.testing.assert_allclose(rows, made.encode(texts, normalize_embeddings=True), atol=1e-5)
    assert np.array_equal(embed_texts(texts, tmp_path / "tiny", is_kept=True), rows)


def test_one_of_each_is_one(cli, tmp_path):
    (tmp_path / "one.csv").write_text("text\na parcel that never came\n")
    assert "1 text from 'one.csv': " in cli("cluster", "one.csv", "--no-report").err
    (tmp_path / "row.csv").write_text("x,y\n1,2\n")
    assert "1 vector of 2 numbers (float64) from 'row.csv': " in cli("cluster", "row.csv", "--no-report").err
