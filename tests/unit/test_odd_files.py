"""Files of texts as strangers have them: encodings, line ends, quotation marks, long cells, JSON in lists."""

from __future__ import annotations

import json

import numpy as np
import pytest

from armillary.exceptions import InputError
from armillary.files import read_documents, read_vectors
from armillary.files.documents import holds_documents

TEXTS = ["a parcel, late", "wo ist das Päckchen?", "银行转账", 'a "word"', "two\nlines", "😀 fine", "last"]


def quoted(text):
    return '"' + text.replace('"', '""') + '"'


def table(end="\n"):
    return end.join(["id,text", *(f"{row},{quoted(text)}" for row, text in enumerate(TEXTS))]) + end


def written(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_marks_of_encodings(tmp_path, end, mark):
    found = read_documents(written(tmp_path, "texts.csv", mark + table(end)))
    assert (found.texts, found.ids) == (TEXTS, [str(row) for row in range(len(TEXTS))])
    lines = [text for text in TEXTS if "\n" not in text]
    path = written(tmp_path, "texts.txt", mark + end.join(lines) + end * 3)
    assert holds_documents(path)
    assert read_documents(path).texts == lines  # empty lines at the end are no texts


def test_a_cell_of_a_megabyte_in_the_first_row(tmp_path):
    long = "word " * 250_000
    found = read_documents(written(tmp_path, "texts.csv", f"id,text\n0,{long}\n1,short\n"))
    assert [len(text) for text in found.texts] == [len(long), 5]


def test_a_quotation_mark_that_is_never_closed(tmp_path):
    lines = ["id,text", *(f"{row},text {row}" for row in range(50))]
    lines[31] = '30,"text 30'
    with pytest.raises(InputError) as caught:
        read_documents(written(tmp_path, "texts.csv", "\n".join(lines) + "\n"))
    assert str(caught.value).endswith(
        "must close every quotation mark; the one that opens a cell in line 32 goes on to the end, line 51. Write "
        'quotation marks within a cell twice: "".'
    )
    lines[31] = '30,a 5" pipe'  # within a cell it is a letter like any other
    assert read_documents(written(tmp_path, "texts.csv", "\n".join(lines))).texts[30] == 'a 5" pipe'


@pytest.mark.parametrize(
    ("encoding", "n_rows", "said"),
    [
        ("cp1252", 3, "byte 10 is not. Save it as UTF-8 (Excel: CSV UTF-8), or convert it: iconv -f WINDOWS-1252 -t U"),
        ("cp1252", 40_000, "byte 428,889 is not. Save it as UTF-8"),  # beyond what is looked at first
        ("utf-16", 3, "it is UTF-16. Save it as UTF-8 (Excel: CSV UTF-8), or convert it: iconv -f UTF-16 -t UTF-8."),
    ],
)
def test_other_encodings_get_a_sentence(tmp_path, encoding, n_rows, said):
    rows = [f"{row},text" for row in range(n_rows)]
    rows[0 if n_rows < 10 else -1] = "0,ä"
    for name in ("texts.csv", "texts.txt"):
        path = written(tmp_path, name, "\n".join(["id,text", *rows]).encode(encoding))
        with pytest.raises(InputError, match="must be UTF-8 text; ") as caught:
            read_documents(path)
        assert said in str(caught.value)


def test_json_in_one_list(tmp_path):
    items = [{"id": row, "text": text} for row, text in enumerate(TEXTS)]
    for content in (json.dumps(items), json.dumps(items, indent=2), "\n".join(map(json.dumps, items))):
        path = written(tmp_path, "texts.json", content)
        assert holds_documents(path)
        assert read_documents(path).texts == TEXTS
    path = written(tmp_path, "texts.json", json.dumps(TEXTS, indent=1))
    assert (holds_documents(path), read_documents(path).texts) == (True, TEXTS)
    X = np.arange(12.0).reshape(4, 3)
    for content in (X.tolist(), [{"id": "a", "vector": row} for row in X.tolist()]):
        path = written(tmp_path, "rows.json", json.dumps(content, indent=2))
        assert not holds_documents(path)
        np.testing.assert_array_equal(read_vectors(path).rows, X)
    with pytest.raises(
        InputError, match=r"Line 1 of .* must be a string or an object with a text, or a list of them; got 7"
    ):
        read_documents(written(tmp_path, "texts.json", '["a", 7]'))


def test_one_number_beside_texts_is_no_vector(tmp_path):
    path = written(tmp_path, "texts.csv", "id,body,stars\n0,a parcel,5\n1,a refund,1\n")
    assert holds_documents(path)
    found = read_documents(path)
    assert (found.texts, found.notes) == (["a parcel", "a refund"], ("texts from column 'body'", "ids from column 'id'",
                                                                     "not used: 'stars'"))  # fmt: skip
    with pytest.raises(InputError, match=r"must have two columns of numbers or more, .*; it has one, 'stars', among"):
        read_vectors(path)


def test_a_table_with_a_text_is_one_of_texts_whatever_numbers_it_has(tmp_path):
    lines = "1000,5,2024,a parcel\n1001,1,2023,a refund\n"
    path = written(tmp_path, "texts.csv", "Ticket ID,stars,year,Body\n" + lines)
    assert holds_documents(path)  # and not a file of vectors of stars and years
    assert read_documents(path).texts == ["a parcel", "a refund"]
    named_otherwise = written(tmp_path, "more.csv", "Ticket ID,stars,year,remark\n" + lines)
    assert not holds_documents(named_otherwise)
    found = read_vectors(named_otherwise)
    assert (found.ids, found.rows.shape) == (["1000", "1001"], (2, 2))  # ids are no part of a vector
    vectors = written(tmp_path, "vectors.csv", "Body,x0,x1\na parcel,0.1,0.2\n")
    assert not holds_documents(vectors)


def test_one_line_of_text_is_no_header(tmp_path):
    for line in ("just one document here", "one, with commas\n", "ein Körbchen Äpfel\n\n"):
        path = written(tmp_path, "texts.txt", line)
        assert holds_documents(path)
        assert read_documents(path).texts == [line.strip()]
    assert not holds_documents(written(tmp_path, "texts.txt", "0.1 0.2 0.3\n"))
    assert not holds_documents(written(tmp_path, "texts.txt", "x y z\n0.1 0.2 0.3\n"))


def test_a_named_column_that_is_empty_is_still_there(tmp_path):
    path = written(tmp_path, "texts.csv", "n,text\n1,\n2,\n")
    assert read_documents(path, text_column="text").texts == ["", ""]
    with pytest.raises(InputError, match="must hold texts; it has only empty lines"):
        read_documents(written(tmp_path, "texts.txt", "\n \n\n"))


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("a.xlsx", r"Save the sheet as CSV UTF-8\."),
        ("a.pkl", r"Reading it can run code\. Save a frame by df\.to_parquet\(path\)"),
        ("a.h5", r"Save the array in it by numpy\.save\(path, X\)\."),
        ("a.docx", r"Save its texts as a txt file"),
    ],
)
def test_formats_that_are_not_read_have_a_way_out(tmp_path, name, way):
    with pytest.raises(InputError, match=rf"must be of another format than '\.\w+', which is not read here\. {way}"):
        read_vectors(written(tmp_path, name, b"PK\x03\x04"))
