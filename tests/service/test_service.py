"""The service without a network: the same ids as the library, corrections, keys, erasure, files, refusals."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

import msgpack
import numpy as np
import pytest
from tests.service.making import LIMITS, add, create, npy, people, served, state_of

from armillary import DDPvMFMeans, Links, SphericalKMeans, save
from armillary.datasets import make_vmf_mixture
from armillary.service import collection as collection_module
from armillary.service.collection import Limits, _Written
from armillary.service.errors import ServiceError
from armillary.service.house import House
from armillary.service.identities import Identities
from armillary.service.operations import ADD, FORGET, MERGE, NAME, SPLIT, UNDO, Operation

NPY = {"content-type": "application/x-npy"}


@pytest.fixture
def client(tmp_path):
    with served(tmp_path) as client:
        create(client)
        yield client


# ------------------------------------------------------------------------------------------------------ same ids


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_ids_are_those_of_the_library_also_after_a_restart(tmp_path, dtype):
    X = people(dtype=dtype)
    expected = Links().fit_predict(X).tolist()
    found = []
    for start in range(0, len(X), 40):
        with served(tmp_path) as client:
            if start == 0:
                create(client)
            found += add(client, X[start : start + 7]) + add(client, X[start + 7 : start + 40])
    assert found == expected
    assert len(set(expected)) == 5


@pytest.mark.parametrize("every", [1, 30, 10**9])
def test_snapshot_and_log_give_the_bits_of_the_library(tmp_path, every):
    X = people()
    limits = Limits(snapshot_vectors=every, min_free_bytes=0)
    house = House(tmp_path, limits)
    room = house.create("people", {"class": "Links", "parameters": {"merge_clusters": True}})
    for start in range(0, len(X), 10):
        room.do(Operation(ADD, {}, X[start : start + 10]))
    house.close()
    again = House(tmp_path, limits)
    model = again.get("people").identities.model
    library = Links(merge_clusters=True).partial_fit(X)
    np.testing.assert_array_equal(model.resultants_, library.resultants_)
    np.testing.assert_array_equal(model.history_, library.history_)
    assert (again.get("people").store.snapshot() is not None) == (every < 200)
    again.close()


def test_every_body_gives_the_same_ids(client):
    X = people()
    ids = add(client, X)
    here = "/v1/collections/people/lookup"
    half = X.astype(np.float16)
    packed = {"vectors": X.tobytes(), "dtype": "float32", "shape": list(X.shape)}
    raw = {"content-type": "application/octet-stream"}
    answers = [
        client.post(here, json={"vectors": X.tolist()}),
        client.post(here, content=npy(np.asfortranarray(X)), headers=NPY),
        client.post(here, content=npy(X.astype(">f4")), headers=NPY),
        client.post(here, content=X.tobytes(), headers=raw),
        client.post(f"{here}?dtype=float16", content=half.tobytes(), headers=raw),
        client.post(here, content=msgpack.packb(packed), headers={"content-type": "application/msgpack"}),
        client.post(
            here, content=msgpack.packb({"vectors": X.tolist()}), headers={"content-type": "application/msgpack"}
        ),
    ]
    for answer in answers:
        assert answer.json() == {"ids": ids}
    binary = client.post(here, content=npy(X), headers={**NPY, "accept": "application/x-npy"})
    assert binary.content[-8 * len(X) :] == np.array(ids, np.int64).tobytes()


def test_many_threads_share_commits_and_every_id_is_one_of_a_sequence(tmp_path):
    X = people(400)
    house = House(tmp_path, LIMITS)
    room = house.create("people", {"class": "Links"})
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda start: room.do(Operation(ADD, {}, X[start : start + 4])), range(0, 400, 4)))
    order = np.concatenate([np.arange(o.answer["first"], o.answer["first"] + 4) for o in outcomes])
    ids = np.concatenate([o.answer["ids"] for o in outcomes])
    assert sorted(order.tolist()) == list(range(400))
    np.testing.assert_array_equal(ids[np.argsort(order)], Links().fit_predict(X[np.argsort(order)]))
    assert len(room.commits) <= 100
    house.close()


def test_vectors_learned_in_one_call_answer_and_tell_as_one_by_one():
    X = people(700, 40)
    wide = [X[:3].astype(np.float64), np.concatenate([X[5:7], X[5:7]], axis=1)]  # another type; another width, refused
    parts = [X[:20], *(X[start : start + 15] for start in range(20, 500, 15)), *wide, X[500:502], X[502:700]]
    asked = [(place + 1, 0.5 * place, Operation(ADD, {}, rows)) for place, rows in enumerate(parts)]
    asked.insert(9, (len(asked) + 1, 0.0, Operation(NAME, {"id": 0, "name": "Ann"})))
    asked = [(place + 1, at, operation) for place, (_, at, operation) in enumerate(asked)]
    together, alone = (Identities(Links(merge_clusters="whole"), store_members=True) for _ in range(2))
    outcomes, expected = together.apply_all(asked), [alone.apply(*one) for one in asked]
    assert [(o.status, o.answer, o.events) for o in outcomes] == [(o.status, o.answer, o.events) for o in expected]
    assert {o.status for o in outcomes} == {200, 422}
    assert [[(m.row, m.node) for m in o.members] for o in outcomes] == [
        [(m.row, m.node) for m in o.members] for o in expected
    ]
    assert together.state() == alone.state()
    np.testing.assert_array_equal(together.model.resultants_, alone.model.resultants_)


def test_a_snapshot_replaces_the_log_little_by_little_and_replay_knows(tmp_path):
    X = people(120)
    house = House(tmp_path, Limits(snapshot_vectors=40, min_free_bytes=0))
    room = house.create("people", {"class": "Links"})
    for start in range(120):
        room.do(Operation(ADD, {}, X[start : start + 1]))
    snapshot = room.store.snapshot()
    assert snapshot is not None
    end = time.monotonic() + 20.0
    while room.store._read("SELECT min(seq) FROM operations")[0][0] in range(snapshot.seq):
        assert time.monotonic() < end
        time.sleep(0.05)
    house.close()
    again = House(tmp_path, LIMITS)
    library = Links().partial_fit(X)
    np.testing.assert_array_equal(again.get("people").identities.model.resultants_, library.resultants_)
    again.close()


def test_a_snapshot_asked_for_outlives_one_of_the_same_place_that_was_written_aside(tmp_path):
    house = House(tmp_path, LIMITS)
    room = house.create("people", {"class": "Links"})
    ids = room.do(Operation(ADD, {}, people())).answer["ids"]
    aside = _Written(room._written(room.identities.seq, room.identities.state(), room.identities.model), room._epoch)
    room.take_snapshot()
    room.between(lambda: room._adopt_snapshot(aside))
    house.close()
    again = House(tmp_path, LIMITS)
    assert again.get("people").lookup(people(), None).tolist() == ids
    again.close()


def test_the_write_ahead_log_is_brought_home_beside_the_writer(tmp_path, monkeypatch):
    from armillary.service import store

    X = people(200)
    for many in (1 << 30, 1):  # by a thread; by the writer, where threads never finish
        monkeypatch.setattr(store, "_MOST_UNSAVED", 4096)
        monkeypatch.setattr(store, "_MANY_UNSAVED", many)
        house = House(tmp_path / str(many), LIMITS)
        room = house.create("people", {"class": "Links"})
        ids = [room.do(Operation(ADD, {}, X[start : start + 4]), f"key {start}") for start in range(0, 200, 4)]
        assert [number for one in ids for number in one.answer["ids"]] == Links().fit_predict(X).tolist()
        assert (tmp_path / str(many) / "collections/people/log.sqlite-wal").stat().st_size < 1 << 20
        house.close()


def test_a_stream_of_steps_and_a_fitted_model(client, tmp_path):
    X = people(300)
    create(client, "steps", model="DDPvMFMeans", parameters={"max_angle": 0.9})
    library = DDPvMFMeans(max_angle=0.9)
    for start in range(0, 300, 100):
        part = X[start : start + 100]
        assert add(client, part, "steps") == library.partial_fit_predict(part).tolist()
    kinds = {event["kind"] for event in client.get("/v1/collections/steps/events").json()["events"]}
    assert kinds == {"born"}
    assert client.put("/v1/collections/steps/ids/1/name", json={"name": "Bo"}).status_code == 200
    assert client.post("/v1/collections/steps/merge", json={"one": 0, "other": 1}).status_code == 409
    fitted = SphericalKMeans(4, random_state=0).fit(X)
    save(fitted, tmp_path / "model")
    made = client.put("/v1/collections/fixed/model", content=(tmp_path / "model").read_bytes())
    assert made.status_code == 201
    found = client.post("/v1/collections/fixed/lookup", content=npy(X), headers=NPY).json()["ids"]
    assert found == fitted.predict(X).tolist()
    assert client.post("/v1/collections/fixed/vectors", content=npy(X), headers=NPY).status_code == 409
    refused = client.put("/v1/collections/bad/model", content=b"no model at all")
    assert (refused.status_code, "the file" in refused.json()["error"]) == (422, True)
    assert client.get("/v1/collections/bad").status_code == 404


def test_a_collection_by_preset_and_by_labelled_vectors(client):
    made = create(client, "voices", preset="voice windows, few speakers")
    assert client.get("/v1/collections/voices").json()["parameters"]["cluster_similarity_threshold"] == 0.75
    assert made["ids"] == 0
    X = people(60, 3)
    labels = Links().fit_predict(X).tolist()
    create(client, "tuned", tune={"vectors": X.tolist(), "labels": labels})
    told = client.get("/v1/collections/tuned").json()
    assert told["tuned"]["accuracy"] == 1.0
    assert told["parameters"]["merge_clusters"] is False  # nothing was surplus
    assert add(client, X, "tuned") == labels


def test_presets_of_faces_and_tuning_merge_where_ids_are_surplus(client):
    create(client, "faces", preset="faces")
    create(client, "strict", preset="faces", parameters={"merge_clusters": False})
    create(client, "sentences", preset="sentences")
    found = [client.get(f"/v1/collections/{name}").json()["parameters"] for name in ("faces", "strict", "sentences")]
    assert [one.get("merge_clusters") for one in found] == ["lone", False, None]
    X, truth, _ = make_vmf_mixture(400, 16, 8, concentration=18.0, min_angle=0.7, random_state=3)
    body = {"vectors": X.tolist(), "labels": truth.tolist()}
    create(client, "tuned", tune=body)
    create(client, "kept", tune=body, parameters={"merge_clusters": False})
    surplus = []
    for name, way in (("tuned", ("whole", "lone")), ("kept", (False,))):
        assert client.get(f"/v1/collections/{name}").json()["parameters"]["merge_clusters"] in way
        add(client, X.astype(np.float32), name)
        surplus.append(client.get(f"/v1/collections/{name}").json()["ids"] / 8.0 - 1.0)
    assert surplus[0] < surplus[1]


# ---------------------------------------------------------------------------------------------- frames and margins


def test_of_one_frame_all_get_different_ids_across_requests_and_restarts(tmp_path):
    X = people(40, 2)
    person = X[Links().fit_predict(X) == 0]
    with served(tmp_path) as client:
        create(client)
        answer = client.post("/v1/collections/people/vectors?frame=photo1", content=npy(person[:2]), headers=NPY)
        assert answer.json()["ids"] == [0, 1]
        assert add(client, person[2:3]) in ([0], [1])
    with served(tmp_path) as client:
        body = {"vectors": person[3:5].tolist(), "frames": ["photo1", "photo2"]}
        ids = client.post("/v1/collections/people/vectors", json=body).json()["ids"]
        assert ids[0] == 2
        assert ids[1] in (0, 1, 2)


def test_a_margin_leaves_the_unclear_unknown_and_unlearned(client):
    X = people(60, 2)
    create(client, "loose", parameters={"cluster_similarity_threshold": 0.6})
    ids = np.array(add(client, X, "loose"))
    assert set(ids.tolist()) == {0, 1}
    between = X[ids == 0].mean(axis=0) + X[ids == 1].mean(axis=0)
    here = "/v1/collections/loose"
    n_before = client.get(here).json()["next_id"]
    known = client.post(f"{here}/vectors?margin=0.2", content=npy(X[:1]), headers=NPY).json()["ids"]
    assert known == [int(ids[0])]
    loose = client.post(f"{here}/lookup", content=npy(between), headers=NPY).json()["ids"]
    strict = client.post(f"{here}/lookup?margin=0.2", content=npy(between), headers=NPY).json()["ids"]
    assert (loose[0] in (0, 1), strict) == (True, [-1])
    learned = client.post(f"{here}/vectors?margin=0.2", content=npy(between), headers=NPY).json()["ids"]
    assert learned == [-1]
    assert client.get(here).json()["next_id"] == n_before


# ------------------------------------------------------------------------------------------------------------ keys


def test_a_key_gives_its_first_answer_for_ever_and_no_other_body(tmp_path):
    X = people()
    with served(tmp_path) as client:
        create(client)
        first = add(client, X[:10], **{"idempotency-key": "one"})
        assert add(client, X[:10], **{"idempotency-key": "one"}) == first
        assert client.get("/v1/collections/people").json()["vectors"] == 10
    with served(tmp_path) as client:
        assert add(client, X[:10], **{"idempotency-key": "one"}) == first
        other = client.post(
            "/v1/collections/people/vectors", content=npy(X[:9]), headers={**NPY, "idempotency-key": "one"}
        )
        assert (other.status_code, "another request" in other.json()["error"]) == (422, True)
        assert client.get("/v1/collections/people").json()["vectors"] == 10


def test_a_key_at_work_is_a_conflict_with_a_time(tmp_path, monkeypatch):
    house = House(tmp_path, LIMITS)
    room = house.create("people", {"class": "Links"})
    append = room.store.append

    def slowly(*arguments):
        time.sleep(0.3)
        append(*arguments)

    monkeypatch.setattr(room.store, "append", slowly)
    operation = Operation(ADD, {}, people(3))
    answered = room.ask(operation, "one")
    with pytest.raises(ServiceError) as caught:
        room.ask(operation, "one")
    assert (caught.value.status, caught.value.facts) == (409, {"retry": 1})
    assert room.do(operation, "two").answer["ids"] == answered.result().answer["ids"]
    assert room.do(operation, "one").answer == answered.result().answer
    house.close()


def test_old_keys_go_only_where_there_are_many_newer_ones(tmp_path, monkeypatch):
    from armillary.service import store

    house = House(tmp_path, LIMITS)
    room = house.create("people", {"class": "Links"})
    X = people(5)
    for row in range(5):
        room.do(Operation(ADD, {}, X[row : row + 1]), f"key {row}")
    room.take_snapshot()
    assert room.store.answered("key 0") is not None  # a clock that jumped alone takes nothing
    monkeypatch.setattr(store, "_KEPT_KEYS", 2)
    room.take_snapshot()
    assert room.store.answered("key 0") is not None  # many, but young
    monkeypatch.setattr(store, "_KEPT_SECONDS", -10.0)
    room.take_snapshot()
    kept = [row for row in range(5) if room.store.answered(f"key {row}") is not None]
    assert kept == [3, 4]
    house.close()


# ----------------------------------------------------------------------------------------------------- corrections


def test_names_merges_splits_and_undo(client):
    X = people()
    add(client, X)
    here = "/v1/collections/people"
    assert client.put(f"{here}/ids/1/name", json={"name": "Ann"}).status_code == 200
    assert client.put(f"{here}/ids/2/name", json={"name": "Bea"}).status_code == 200
    strict = client.post(f"{here}/must-link", json={"one": 1, "other": 2})
    assert (strict.status_code, "different names" in strict.json()["error"]) == (422, True)
    merged = client.post(f"{here}/merge", json={"one": 2, "other": 1}).json()
    assert merged["id"] == 1
    assert client.get(f"{here}/ids/2/current").json() == {"id": 2, "current": 1}
    assert client.get(f"{here}/ids/2").json()["name"] == "Bea"
    undone = client.post(f"{here}/undo", json={"operation": merged["operation"]}).json()
    assert (undone["id"], undone["part"]) == (1, 2)
    names = {line["id"]: line["name"] for line in client.get(f"{here}/ids").json()["ids"]}
    assert (names[1], names[2]) == ("Ann", "Bea")
    again = client.post(f"{here}/undo", json={"operation": merged["operation"]})
    assert again.status_code == 409
    kinds = [event["kind"] for event in client.get(f"{here}/events?since=5").json()["events"]]
    assert kinds == ["named", "named", "merged", "split"]
    apart = client.post(f"{here}/cannot-link", json={"one": 0, "other": 3}).json()
    assert client.post(f"{here}/must-link", json={"one": 0, "other": 3}).status_code == 422
    client.post(f"{here}/undo", json={"operation": apart["operation"]})
    assert client.post(f"{here}/must-link", json={"one": 0, "other": 3}).json()["id"] == 0


def test_lists_of_ids_by_number_by_age_and_by_name(client):
    add(client, people(60, 5))
    here = "/v1/collections/people/ids"
    client.put(f"{here}/1/name", json={"name": "Ann Élan"})
    client.put(f"{here}/3/name", json={"name": "Joanne"})

    def listed(query):
        answer = client.get(f"{here}?{query}").json()
        return [line["id"] for line in answer["ids"]], answer["of"], answer["next_id"]

    assert listed("") == ([0, 1, 2, 3, 4], 5, 5)
    assert listed("after=1&limit=2") == ([2, 3], 3, 5)
    assert listed("newest=true&limit=2") == ([4, 3], 5, 5)
    assert listed("find=ANN") == ([1, 3], 2, 5)
    assert listed("find=%20%C3%A9lan&newest=true") == ([1], 1, 5)
    assert listed("find=%234") == ([4], 1, 5)
    assert listed("find=" + "9" * 30) == ([], 0, 5)


def test_the_map_has_the_directions_of_the_largest(client):
    X = people(60, 5, 3)
    add(client, X)
    model = client.house.get("people").identities.model
    told = client.get("/v1/collections/people/map?limit=3").json()
    largest = np.sort(np.argsort(-np.bincount(model.subcluster_ids_, model.counts_), kind="stable")[:3])
    assert told["ids"] == largest.tolist()
    np.testing.assert_allclose(told["points"], model.cluster_centers_[largest], atol=1e-5)


def test_a_split_by_subclusters_and_by_rows_that_are_kept(client):
    X = people(200, 3)
    create(client, "kept", parameters={"subcluster_similarity_threshold": 0.93}, store_members=True)
    ids = np.array(add(client, X, "kept"))
    here = "/v1/collections/kept"
    parted = client.post(f"{here}/split", json={"id": 0}).json()
    assert parted["part"] == 3
    rejoined = client.post(f"{here}/undo", json={"operation": parted["operation"]}).json()
    assert rejoined["id"] == 0
    rows = np.flatnonzero(ids == 0)[:20].tolist()
    by_rows = client.post(f"{here}/split", json={"id": 0, "rows": rows}).json()
    now = client.get(f"{here}/ids/{by_rows['part']}").json()
    assert now["vectors"] == 20.0
    assert now["rows"] == rows
    model = client.house.get("kept").identities.model
    np.testing.assert_allclose(model.resultants_.sum(axis=0), X.astype(np.float64).sum(axis=0), atol=1e-4)
    assert client.post(f"{here}/split", json={"id": 1, "rows": rows}).status_code == 422
    assert client.post(f"{here}/split", json={"id": 1, "rows": [10**9]}).status_code == 404
    create(client, "plain")
    add(client, X, "plain")
    assert client.post("/v1/collections/plain/split", json={"id": 0, "rows": [0]}).status_code == 409


def test_a_split_by_rows_is_the_same_after_a_replay_and_counts_a_row_once(tmp_path):
    X = people(100, 3)
    with served(tmp_path) as client:
        create(client, store_members=True)
        rows = np.flatnonzero(np.array(add(client, X)) == 0)[:10].tolist()
        asked = {"id": 0, "rows": rows + rows}
        part = client.post("/v1/collections/people/split", json=asked, headers={"idempotency-key": "part"}).json()
        client.house.get("people").between(client.house.get("people")._flush)  # rows are shown once they are written
        before = client.get(f"/v1/collections/people/ids/{part['part']}").json()
        assert before["rows"] == rows
        assert before["vectors"] == len(rows)
    with served(tmp_path) as client:
        assert client.get(f"/v1/collections/people/ids/{part['part']}").json() == before
        again = client.post("/v1/collections/people/split", json=asked, headers={"idempotency-key": "part"})
        assert again.json() == part


def test_events_reach_a_listener_and_replays_number_them_alike(tmp_path):
    X = people()
    with served(tmp_path) as client:
        create(client)
        add(client, X)
        before = client.get("/v1/collections/people/events").json()["events"]
        assert [event["number"] for event in before] == [1, 2, 3, 4, 5]
        client.house.get("people")._followed.clear()  # as if the process had died before they were written
        client.house.get("people").recent.clear()
    with served(tmp_path) as client:
        assert client.get("/v1/collections/people/events").json()["events"] == before


# --------------------------------------------------------------------------------------------------------- erasure


def holds(folder, *needles):
    """Which of these bytes lie in any file below a folder."""
    return [
        (needle, str(path.relative_to(folder)))
        for path in folder.rglob("*")
        if path.is_file()
        for needle in needles
        if needle in path.read_bytes()
    ]


def test_nothing_of_a_forgotten_person_is_left_in_any_file(tmp_path):
    X = people(100, 3)
    with served(tmp_path) as client:
        create(client, store_members=True)
        ids = add(client, X, **{"idempotency-key": "all"})
        here = "/v1/collections/people"
        client.put(f"{here}/ids/1/name", json={"name": "Zaphod Unforgettable"})
        client.put(f"{here}/ids/1/meta", json={"note": "two heads exactly"})
        client.put(f"{here}/ids/0/name", json={"name": "Arthur Remembered"})
        client.post(f"{here}/snapshot")
        backup = client.post(f"{here}/backups").json()["file"]
        add(client, X[:50])
        row = int(np.flatnonzero(np.array(ids) == 1)[0])
        needles = [b"Zaphod", b"two heads", X[row].tobytes()]
        client.house.get("people").between(client.house.get("people")._flush)
        assert len({needle for needle, _ in holds(tmp_path, *needles)}) == 3
        gone = client.post(f"{here}/forget", json={"id": 1}).json()
        assert gone["backups_still_holding"] == [backup]
        (tmp_path / "collections" / "people" / "backups" / backup).unlink()
        assert holds(tmp_path, *needles) == []
        assert holds(tmp_path, b"Arthur Remembered") != []
        assert client.get(f"{here}/ids/1").json()["current"] == -1
        scrubbed = [-1 if number == 1 else number for number in ids]
        assert add(client, X, **{"idempotency-key": "all"}) == scrubbed
        fresh = add(client, X[row : row + 1])
        assert fresh == [3]  # a new id: 1 is never given again
        assert client.put(f"{here}/ids/1/name", json={"name": "again"}).status_code == 410
    assert holds(tmp_path, *needles[:2]) == []
    with served(tmp_path) as client:
        assert client.get("/v1/collections/people/ids/0").json()["name"] == "Arthur Remembered"
        assert client.get("/v1/collections/people/ids/1").json()["current"] == -1


def test_a_forget_under_a_key_gives_its_first_answer(client):
    add(client, people(100, 3))
    forget = [
        client.post("/v1/collections/people/forget", json={"id": 1}, headers={"idempotency-key": "f"}).json()
        for _ in range(2)
    ]
    assert forget[0]["ids"] == [1]
    assert forget[1] == forget[0]


def test_a_backup_from_before_a_split_is_listed_as_holding_the_part(client):
    X = people(60, 3)
    add(client, np.concatenate([X[:30], -X[:30]]))
    here = "/v1/collections/people"
    joined = client.post(f"{here}/merge", json={"one": 0, "other": 1}).json()
    backup = client.post(f"{here}/backups").json()["file"]
    part = client.post(f"{here}/split", json={"id": joined["id"]}).json()["part"]
    assert client.post(f"{here}/forget", json={"id": part}).json()["backups_still_holding"] == [backup]


def test_an_erasure_that_a_crash_broke_off_is_finished_at_the_next_start(tmp_path, monkeypatch):
    X = people(100, 3)
    house = House(tmp_path, LIMITS)
    room = house.create("people", {"class": "Links"})
    room.do(Operation(ADD, {}, X))
    room.do(Operation(NAME, {"id": 1, "name": "Zaphod"}))
    with monkeypatch.context() as patch:
        patch.setattr(collection_module.Collection, "_erase", lambda self, gone: (_ for _ in ()).throw(OSError("gone")))
        with pytest.raises(ServiceError):
            room.do(Operation(FORGET, {"id": 1}))
        house.close()
    assert holds(tmp_path, b"Zaphod") != []
    again = House(tmp_path, LIMITS)
    assert holds(tmp_path, b"Zaphod") == []
    assert again.get("people").identities.current([0, 1]) == [0, -1]
    again.close()


# ----------------------------------------------------------------------------------------------------------- files


def test_export_and_import_go_on_with_equal_bits(client):
    X = people()
    add(client, X[:100], **{"idempotency-key": "first"})
    client.put("/v1/collections/people/ids/0/name", json={"name": "Ann"})
    client.post("/v1/collections/people/snapshot")
    add(client, X[100:150])
    bundle = client.get("/v1/collections/people/export").content
    assert client.post("/v1/collections/twin/import", content=bundle).status_code == 201
    assert add(client, X[150:], "twin") == add(client, X[150:])
    assert client.get("/v1/collections/twin/ids/0").json()["name"] == "Ann"
    ids = add(client, X[:100], "twin", **{"idempotency-key": "first"})
    assert ids == Links().fit_predict(X[:100]).tolist()
    for damaged in (b"", b"PK", bundle[: len(bundle) // 2], bundle.replace(b"CREATE TABLE", b"CREATE TABEL")):
        refused = client.post("/v1/collections/bad/import", content=damaged)
        assert refused.status_code == 422, refused.text
    assert client.get("/v1/collections/bad").status_code == 404


@pytest.mark.parametrize("state", ["{}", "[]", '{"seq": "x", "next_event": 0, "n_rows": 0, "frames": 3}'])
def test_a_bundle_with_another_state_is_refused_and_the_server_starts_again(tmp_path, state):
    house = House(tmp_path / "data", LIMITS)
    room = house.create("people", {"class": "Links"})
    room.do(Operation(ADD, {}, people()[:20]))
    room.take_snapshot()
    bundle, folder = tmp_path / "bundle.zip", tmp_path / "changed"
    room.export_to(bundle)
    folder.mkdir()
    zipfile.ZipFile(bundle).extractall(folder)
    with contextlib.closing(sqlite3.connect(folder / "log.sqlite")) as log, log:
        log.execute("UPDATE snapshots SET state = ?", (state,))
    with zipfile.ZipFile(bundle, "w") as packed:
        for path in folder.iterdir():
            packed.write(path, path.name)
    with pytest.raises(ServiceError, match=r"cannot be opened|snapshots.state") as refused:
        house.create_from_bundle("twin", bundle)
    assert refused.value.status == 422
    house.close()
    again = House(tmp_path / "data", LIMITS)
    assert [room.name for room in again.rooms()] == ["people"]
    again.close()


def test_a_closed_collection_refuses_and_lets_nobody_wait(tmp_path):
    house = House(tmp_path, LIMITS)
    room = house.create("people", {"class": "Links"})
    house.delete("people")
    with pytest.raises(ServiceError, match="is closed"):
        room.ask(Operation(ADD, {}, people()[:2]))
    with pytest.raises(ServiceError, match="is closed"):
        room.between(dict)
    with pytest.raises(ServiceError, match="is closed"):
        room.back_up()
    with pytest.raises(ServiceError, match="is closed"):
        room.export_to(tmp_path / "bundle")
    house.close()


def test_an_error_of_the_log_stops_a_collection_and_leaves_nobody_waiting(tmp_path, monkeypatch):
    def broken(*_given):
        raise sqlite3.DatabaseError("file is not a database")

    house = House(tmp_path, LIMITS)
    room = house.create("people", {"class": "Links"})
    ids = room.do(Operation(ADD, {}, people()[:20])).answer
    monkeypatch.setattr(room.store, "append", broken)
    for _ in range(2):
        with pytest.raises(ServiceError, match=r"stopped: file is not a database\. Restart the server"):
            room.ask(Operation(ADD, {}, people()[20:30])).result(timeout=20)
    assert room.n_waiting == 0
    house.close()
    again = House(tmp_path, LIMITS)
    assert again.get("people").do(Operation(ADD, {}, people()[:20])).answer["ids"] == ids["ids"]
    again.close()


def test_two_servers_cannot_hold_one_folder_and_later_versions_are_refused(tmp_path):
    house = House(tmp_path, LIMITS)
    house.create("people", {"class": "Links"})
    with pytest.raises(Exception, match="two runs at once"):
        House(tmp_path, LIMITS)
    house.close()
    log = sqlite3.connect(tmp_path / "collections" / "people" / "log.sqlite")
    log.execute("PRAGMA user_version = 99")
    log.close()
    with pytest.raises(ServiceError, match="later release"):
        House(tmp_path, LIMITS)


def test_a_torn_write_ahead_log_loses_nothing_that_was_whole(tmp_path):
    X = people()
    house = House(tmp_path, LIMITS)
    room = house.create("people", {"class": "Links"})
    for start in range(0, 200, 10):
        room.do(Operation(ADD, {}, X[start : start + 10]))
    folder = tmp_path / "collections" / "people"
    log, ahead = (folder / "log.sqlite").read_bytes(), (folder / "log.sqlite-wal").read_bytes()
    house.close()
    expected = Links().fit_predict(X)
    generator = np.random.default_rng(0)
    for trial in range(8):
        torn = bytearray(ahead[: int(generator.integers(len(ahead) // 2, len(ahead)))])
        if trial % 2:  # a page of which half was written
            torn[-200:] = bytes(200)
        for name, content in (("log.sqlite", log), ("log.sqlite-wal", bytes(torn))):
            (folder / name).write_bytes(content)
        (folder / "log.sqlite-shm").unlink(missing_ok=True)
        again = House(tmp_path, LIMITS)
        room = again.get("people")
        n_known = room.identities.n_rows
        assert 0 < n_known < 200
        assert n_known % 10 == 0
        np.testing.assert_array_equal(room.identities.model.resultants_, Links().partial_fit(X[:n_known]).resultants_)
        ids = [room.do(Operation(ADD, {}, X[start : start + 10])).answer["ids"] for start in range(n_known, 200, 10)]
        assert [number for part in ids for number in part] == expected[n_known:].tolist()
        again.close()


def test_a_full_disk_stops_writes_and_changes_nothing(client, monkeypatch):
    X = people()
    first = add(client, X[:50], **{"idempotency-key": "first"})
    room = client.house.get("people")
    before = state_of(client)
    room.limits = Limits(min_free_bytes=1 << 60)
    refused = client.post("/v1/collections/people/vectors", content=npy(X), headers=NPY)
    assert (refused.status_code, "nearly full" in refused.json()["error"]) == (507, True)
    assert add(client, X[:50], **{"idempotency-key": "first"}) == first  # nothing is written for what was answered
    room.limits = LIMITS
    pages = room.store._writing.execute("PRAGMA page_count").fetchone()[0]
    room.store._writing.execute(f"PRAGMA max_page_count = {pages}")
    big = people(4000, 5)
    refused = client.post("/v1/collections/people/vectors", content=npy(big), headers=NPY)
    assert (refused.status_code, "takes no more" in refused.json()["error"]) == (507, True)
    assert state_of(client) == before
    assert client.post("/v1/collections/people/lookup", content=npy(X[:5]), headers=NPY).status_code == 200
    room.store._writing.execute("PRAGMA max_page_count = 1073741823")
    assert add(client, X[50:]) == Links().fit_predict(X)[50:].tolist()


# ------------------------------------------------------------------------------------------------------ attachments


def test_meta_and_thumbnails(client):
    from PIL import Image

    add(client, people(20))
    here = "/v1/collections/people/ids"
    meta = {"text": "<script>alert(1)</script>", "n": [1, 2.5, None]}
    assert client.put(f"{here}/0/meta", json=meta).status_code == 200
    assert client.get(f"{here}/0").json()["meta"] == {"0": meta}
    assert client.put(f"{here}/0/meta", content=json.dumps({"x": "y" * 70_000})).status_code == 413
    assert client.put(f"{here}/77/meta", json={}).status_code == 404
    for kind in ("PNG", "JPEG", "WEBP"):
        import io

        stream = io.BytesIO()
        Image.new("RGB", (400, 300), (200, 30, 40)).save(
            stream, kind, **({"comment": b"secret"} if kind == "JPEG" else {})
        )
        assert client.put(f"{here}/0/thumbnail", content=stream.getvalue()).status_code == 200
        image = client.get(f"{here}/0/thumbnail")
        assert image.headers["content-type"] == "image/png"
        assert image.content[:4] == b"\x89PNG"
        assert b"secret" not in image.content
    svg = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    for bad in (svg, b"GIF89a", stream.getvalue()[:50]):
        assert client.put(f"{here}/0/thumbnail", content=bad).status_code == 422


# --------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("body", "row"),
    [
        ({"vectors": [[1.0, 0.0], [float("nan"), 0.0]]}, 1),
        ({"vectors": [[1.0, 0.0], [1.0]]}, 1),
        ({"vectors": [[1.0, 0.0], [0.0, 0.0]]}, 1),
        ({"vectors": [[1.0, 0.0], [1.0, "x"]]}, 1),
        ({"vectors": [[1.0, 0.0], [1.0, True]]}, 1),
        ({"vectors": [[1.0, 0.0, 0.0]]}, 0),
        ({"vectors": []}, None),
        ({"vectors": 3}, None),
        ({}, None),
        ([], None),
        ({"vectors": [[1.0, 0.0]], "frames": ["a", "b"]}, None),
        ({"vectors": [[1.0, 0.0]], "frame": "a", "frames": ["a"]}, None),
        ({"vectors": [[1.0, 0.0]], "margin": 3.0}, None),
        ({"vectors": [[1.0, 0.0]], "surprise": 1}, None),
        ({"vectors": [[10**400, 0.0]]}, None),
    ],
)
def test_what_does_not_fit_is_refused_with_its_row_and_changes_nothing(client, body, row):
    add(client, np.eye(2, dtype=np.float32))
    before = state_of(client)
    content = json.dumps(body)
    refused = client.post(
        "/v1/collections/people/vectors", content=content, headers={"content-type": "application/json"}
    )
    assert refused.status_code == 422, refused.text
    assert refused.json().get("row") == row
    assert state_of(client) == before


def test_limits_on_bodies_batches_queues_and_rates(tmp_path):
    X = people()
    with served(tmp_path, max_body_bytes=20_000, max_batch=50, rate=20.0) as client:
        create(client)
        here = "/v1/collections/people/vectors"
        assert client.post(here, content=npy(X), headers=NPY).status_code == 413

        def pieces():
            for _ in range(100):
                yield bytes(1000)

        assert client.post(here, content=pieces(), headers=NPY).status_code == 413
        assert client.post(here, content=npy(X[:60]), headers=NPY).status_code == 413
        assert client.post(here, content=npy(X[:10]), headers=NPY).status_code == 200
        statuses = [client.get("/v1/collections/people/ids/0/current") for _ in range(200)]
        refused = [answer for answer in statuses if answer.status_code == 429]
        assert refused
        assert int(refused[0].headers["retry-after"]) >= 1
        room = client.house.get("people")
        room.limits = Limits(max_queue=0, min_free_bytes=0)
        with pytest.raises(ServiceError) as caught:
            room.ask(Operation(ADD, {}, X[:1]))
        assert (caught.value.status, caught.value.facts) == (429, {"retry": 1})


def test_a_state_that_is_broken_is_told_and_not_gone_on_with(client, monkeypatch):
    X = people()
    add(client, X[:10])
    room = client.house.get("people")
    with monkeypatch.context() as patch:
        patch.setattr(room.identities, "apply", lambda *_: 1 / 0)
        assert client.post("/v1/collections/people/vectors", content=npy(X), headers=NPY).status_code == 503
    assert client.post("/v1/collections/people/vectors", content=npy(X), headers=NPY).status_code == 503
    ready = client.get("/readyz")
    assert (ready.status_code, ready.json()["broken"]) == (503, ["people"])


def test_names_of_collections_and_models_are_checked(client):
    for name in ("", "..", "a/b", "A", "x" * 65, "über"):
        assert client.post("/v1/collections", json={"name": name}).status_code == 422
    assert client.post("/v1/collections", json={"name": "people"}).status_code == 409
    for more in (
        {"preset": "no such"},
        {"parameters": {"cluster_similarity_threshold": 7.0}},
        {"parameters": {"callbacks": "x"}},
        {"model": "SphericalKMeans"},
    ):
        assert client.post("/v1/collections", json={"name": "other", **more}).status_code == 422
    assert client.delete("/v1/collections/people").status_code == 200
    assert client.get("/v1/collections/people").status_code == 404
    create(client)


def test_undo_of_merges_split_and_names_restores_ids_of_the_library(tmp_path):
    """A merge that is undone leaves the vectors where they were: later vectors get the ids they would have got."""
    X = people()
    expected = Links().fit_predict(X)
    house = House(tmp_path, LIMITS)
    room = house.create("people", {"class": "Links"})
    room.do(Operation(ADD, {}, X[:100]))
    merged = room.do(Operation(MERGE, {"one": 0, "other": 1}))
    room.do(Operation(UNDO, {"operation": merged.answer["operation"]}))
    assert room.do(Operation(ADD, {}, X[100:])).answer["ids"] == expected[100:].tolist()
    refused = room.do(Operation(SPLIT, {"id": 0}))
    assert (refused.status, "one" in refused.answer["error"]) == (422, True)
    house.close()
