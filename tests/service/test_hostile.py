"""What nobody sends by mistake, and what everybody does: bodies, attachments and files that must change nothing."""

from __future__ import annotations

import errno
import io
import json
import sqlite3
import struct
import zipfile
from pathlib import Path

import pytest
from tests.service.making import add, create, npy, people, served, state_of

from armillary import Links
from armillary.service import collection as collection_module
from armillary.service import store as store_module
from armillary.service.operations import META, Operation

HERE = "/v1/collections/people"
NPY = {"content-type": "application/x-npy"}
RAW = {"content-type": "application/octet-stream"}


@pytest.fixture
def client(tmp_path):
    with served(tmp_path) as found:
        create(found)
        add(found, people(60, 3))
        yield found


def refused(client, method, path, **body):
    """The sentence of a refusal that changed nothing."""
    before = state_of(client)
    answer = client.request(method, path, **body)
    assert answer.status_code == 422, answer.text
    assert state_of(client) == before
    return answer.json()["error"]


@pytest.mark.parametrize("shape", ["(-2, -16)", "(True, 32)", "(-1, -32)", f"({1 << 70}, 0)", "(-32,)"])
def test_an_npy_file_of_no_shape_is_refused(client, shape):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (63 - (len(header) + 10) % 64) + b"\n"
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    content += b"" if shape.endswith(" 0)") else people(1).tobytes()
    assert "as many bytes as it says" in refused(client, "POST", f"{HERE}/vectors", content=content, headers=NPY)


@pytest.mark.parametrize("width", ["9" * 5000, "٣٢", "²", "32.0", "-32", "0"])
def test_a_width_that_is_none_is_refused(client, width):
    path = f"{HERE}/vectors?dimension={width}"
    assert "Plain bytes need" in refused(client, "POST", path, content=people(1).tobytes(), headers=RAW)


@pytest.mark.parametrize(
    ("meta", "sentence"),
    [
        ('{"a":' * 65 + "1" + "}" * 65, "at most 64 objects or lists deep"),
        ('{"a":' * 900 + "1" + "}" * 900, "at most 64 objects or lists deep"),
        ('{"a": ' + "[" * 64 + "]" * 64 + "}", "at most 64 objects or lists deep"),
        (r'{"a": "\ud800"}', "half of one"),
        (r'{"\udfff": 1}', "half of one"),
        ('{"a": 1e999}', "finite"),
    ],
)
def test_what_could_not_be_told_again_is_not_attached(client, meta, sentence):
    assert sentence in refused(client, "PUT", f"{HERE}/ids/0/meta", content=meta)
    assert client.get(f"{HERE}/ids/0").status_code == 200
    deep = '{"a":' * 64 + "1" + "}" * 64
    assert client.put(f"{HERE}/ids/0/meta", content=deep).status_code == 200
    assert client.get(f"{HERE}/ids/0").json()["meta"]["0"] == json.loads(deep)


def test_what_was_attached_in_the_past_can_still_be_read(client):
    client.house.get("people").do(Operation(META, {"id": 0, "meta": {"half": "\ud800"}}))
    assert client.get(f"{HERE}/ids/0").json()["meta"]["0"] == {"half": "\ud800"}


@pytest.mark.parametrize("name", [" ", "\u00a0", "\ud800", "a\u0000", "\u202e"])
def test_a_name_can_be_seen(client, name):
    refused(client, "PUT", f"{HERE}/ids/0/name", content=json.dumps({"name": name}))


def bundle_with(content, query):
    """A bundle with another log."""
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            part = old.read(name)
            if name == "log.sqlite":
                log = sqlite3.connect(":memory:")
                log.deserialize(part[:18] + b"\x01\x01" + part[20:])  # in memory there is no write-ahead log
                assert log.execute(query).rowcount > 0 or query.startswith("PRAGMA")
                log.commit()
                part = log.serialize()
                log.close()
            new.writestr(name, part)
    return changed.getvalue()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A bundle with something in every table, and a state with something in every field."""
    with served(tmp_path_factory.mktemp("exported")) as client:
        create(client, store_members=True)
        X = people(60, 3)
        client.post(f"{HERE}/vectors?frame=f", content=npy(X[:3]), headers={**NPY, "idempotency-key": "k"})
        add(client, X)
        client.put(f"{HERE}/ids/1/name", json={"name": "Ann"})
        client.put(f"{HERE}/ids/0/meta", json={"a": 1})
        image = io.BytesIO()
        pytest.importorskip("PIL.Image").new("RGB", (9, 9)).save(image, "PNG")
        assert client.put(f"{HERE}/ids/0/thumbnail", content=image.getvalue()).status_code == 200
        client.post(f"{HERE}/merge", json={"one": 0, "other": 1})
        client.post(f"{HERE}/snapshot")
        add(client, X[:5])
        yield client.get(f"{HERE}/export").content


def state_with(field, value):
    return f"UPDATE snapshots SET state = json_set(state, '$.{field}', json('{json.dumps(value)}'))"


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("UPDATE events SET at = X'00'", "events.at"),
        ("UPDATE events SET other = 'y'", "events.other"),
        ("UPDATE events SET id = -5", "events.id"),
        ("UPDATE meta SET body = '{'", "meta.body"),
        ("UPDATE thumbnails SET image = '<svg onload=alert(1)>'", "thumbnails.image"),
        ("UPDATE answers SET body = 'x'", "answers.body"),
        ("UPDATE answers SET status = 'a'", "answers.status"),
        ("UPDATE members SET dtype = 'O'", "members.dtype"),
        ("UPDATE members SET vector = X'00'", "must have 32 columns"),
        ("UPDATE members SET node = 99999", "numbers that were given"),
        ("UPDATE operations SET at = 'x'", "operations.at"),
        ("UPDATE facts SET value = '5' WHERE name = 'model'", "facts.model"),
        (state_with("next_event", -7), "next_event"),
        (state_with("n_rows", -3), "n_rows"),
        (state_with("seq", 1), "seq"),
        (state_with("frames", [["f", ["x"]]]), "frames"),
        (state_with("frames", [["f", [999]]]), "frames"),
        (state_with("merged", [[0, 999]]), "merged"),
        (state_with("undoable", [[1, 5]]), "undoable"),
        (state_with("undoable", [[1, {"kind": "name", "id": 0, "before": 5}]]), "undoable"),
        (state_with("undoable", [[1, {"kind": "merge", "kept": 0, "gone": 1}]]), "undoable"),
        (state_with("undoable", [[1, {"kind": "split", "id": 0, "part": "1"}]]), "undoable"),
        (state_with("own_names", [[0, 5]]), "own_names"),
    ],
)
def test_a_bundle_that_export_did_not_write_is_refused(client, exported, query, told):
    """Each of these was taken, and failed later: in an answer, in the writer, or at the next start."""
    given = bundle_with(exported, query)
    assert told in refused(client, "POST", "/v1/collections/twin/import", content=given)
    assert not list((Path(client.house.data) / "collections").glob("*twin*"))


@pytest.mark.parametrize("version", [None, 1])
def test_a_bundle_as_it_was_written_is_taken_also_of_an_earlier_version(client, exported, version):
    given = exported if version is None else bundle_with(exported, f"PRAGMA user_version = {version}")
    assert client.post("/v1/collections/twin/import", content=given).status_code == 201
    twin = client.get("/v1/collections/twin/ids/0").json()
    assert (twin["name"], twin["has_thumbnail"], twin["meta"]) == ("Ann", True, {"0": {"a": 1}})


def test_a_bundle_of_a_later_version_is_refused(client, exported):
    given = bundle_with(exported, "PRAGMA user_version = 99")
    assert "one that export wrote" in refused(client, "POST", "/v1/collections/twin/import", content=given)


@pytest.mark.parametrize(("number", "status"), [(errno.EROFS, 503), (errno.ENOSPC, 507), (errno.EACCES, 503)])
def test_a_disk_that_refuses_is_told_and_changes_nothing(client, monkeypatch, number, status):
    before, plain = state_of(client), Path.mkdir

    def mkdir(self, *given, **more):
        if "collections" in str(self) or self.name == "passing":
            raise OSError(number, "It does not take it", str(self))
        return plain(self, *given, **more)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    for method, path in (("POST", "backups"), ("GET", "export"), ("POST", "import")):
        answer = client.request(method, f"{HERE}/{path}", content=b"")
        assert answer.status_code == status, path
        assert "It does not take it" in answer.json()["error"]
        assert str(client.house.data) not in answer.text
    assert state_of(client) == before


def test_a_store_that_can_only_be_read_answers_and_refuses(client):
    room = client.house.get("people")
    room.store._writing.execute("PRAGMA query_only = ON")
    X = people(60, 3)
    before = state_of(client)
    answer = client.post(f"{HERE}/vectors", content=npy(X), headers=NPY)
    assert (answer.status_code, "The store refused to write" in answer.json()["error"]) == (503, True)
    assert state_of(client) == before
    assert client.post(f"{HERE}/lookup", content=npy(X), headers=NPY).json()["ids"] == Links().fit_predict(X).tolist()
    room.store._writing.execute("PRAGMA query_only = OFF")
    assert add(client, X[:5]) == Links().fit_predict(X)[:5].tolist()


def test_metrics_count_methods_that_there_are(client):
    for method in ("AAAA", "AAAB"):
        assert client.request(method, HERE).status_code == 405
    page = client.get("/metrics").text
    assert "AAA" not in page
    assert 'method="-"' in page


def test_a_collection_that_is_deleted_while_it_is_copied_says_so(client, monkeypatch):
    plain = store_module.Seen.copy_to

    def copy_to(self, path):
        client.house.delete("people")
        plain(self, path)

    monkeypatch.setattr(store_module.Seen, "copy_to", copy_to)
    answer = client.get(f"{HERE}/export")
    assert (answer.status_code, "it was deleted" in answer.json()["error"]) == (503, True)


def test_a_clock_that_jumps_changes_nothing(tmp_path, monkeypatch):
    X, key = people(60, 3), {"idempotency-key": "first"}
    expected = Links().fit_predict(X).tolist()
    with served(tmp_path) as client:
        create(client)
        ids = add(client, X[:10], **key)
        for moment, (start, stop) in zip((0.0, 4e9, -5.0, 1e12), ((10, 20), (20, 30), (30, 40), (40, 50)), strict=True):
            monkeypatch.setattr(collection_module.time, "time", lambda moment=moment: moment)
            ids += add(client, X[start:stop])
            client.post(f"{HERE}/snapshot")
            assert add(client, X[:10], **key) == expected[:10]
    with served(tmp_path) as client:
        assert add(client, X[:10], **key) == expected[:10]
        ids += add(client, X[50:])
        numbers = [event["number"] for event in client.get(f"{HERE}/events").json()["events"]]
    assert ids == expected
    assert numbers == list(range(1, len(numbers) + 1))
