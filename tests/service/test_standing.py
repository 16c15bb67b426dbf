"""What stands: what an undo must not touch, ids and kept vectors after long histories, erasures that wait."""

from __future__ import annotations

import copy
import errno
import sqlite3
import threading
import time
import warnings

import numpy as np
import pytest
from tests.service.making import LIMITS, add, create, people, served
from tests.service.test_service import NPY, holds, npy

from armillary import DDPvMFMeans, Links
from armillary.datasets import make_vmf_mixture
from armillary.exceptions import InputError
from armillary.models.links.links import kept_apart_from, standing_merges
from armillary.service import app as app_module
from armillary.service import collection as collection_module
from armillary.service import house as house_module
from armillary.service import store as store_module
from armillary.service import tokens as tokens_module
from armillary.service import views as views_module
from armillary.service.collection import Limits
from armillary.service.errors import ServiceError
from armillary.service.house import House
from armillary.service.identities import Identities
from armillary.service.operations import (
    ADD,
    CANNOT_LINK,
    FORGET,
    MERGE,
    MUST_LINK,
    NAME,
    SPLIT,
    UNDO,
    Operation,
)
from armillary.service.tokens import Tokens

HERE = "/v1/collections/people"


@pytest.fixture
def state():
    """Four people."""
    found = Identities(Links())
    found.apply(1, 0.0, Operation(ADD, {}, people(80, 4)))
    assert found.ids_now().tolist() == [0, 1, 2, 3]
    return found


def do(state, kind, **fields):
    return state.apply(state.seq + 1, 0.0, Operation(kind, fields))


def undo(state, outcome):
    return do(state, UNDO, operation=outcome.answer["operation"])


# ---------------------------------------------------------------------------------------------------------- undo


def test_an_undone_link_gives_each_its_name_and_those_it_is_kept_apart_from(state):
    do(state, NAME, id=1, name="Bob")
    do(state, CANNOT_LINK, one=1, other=2)
    linked = do(state, MUST_LINK, one=0, other=1)
    assert state.names == {0: "Bob"}
    assert undo(state, linked).status == 200
    assert state.names == {1: "Bob"}
    assert kept_apart_from(state.model, 2) == [1]
    assert do(state, MUST_LINK, one=1, other=2).status == 422


def test_an_undo_takes_no_name_and_no_statement_that_came_later(state):
    merged = do(state, MERGE, one=0, other=1)
    do(state, NAME, id=0, name="Ann")
    undo(state, merged)
    assert state.names == {0: "Ann"}

    first, _ = do(state, NAME, id=2, name="Cy"), do(state, NAME, id=2, name="Cyril")
    refused = undo(state, first)
    assert (refused.status, "named again since" in refused.answer["error"]) == (409, True)
    assert state.names[2] == "Cyril"

    first, second = (do(state, CANNOT_LINK, one=2, other=3) for _ in range(2))
    undo(state, second)
    assert kept_apart_from(state.model, 2) == [3]
    third = do(state, CANNOT_LINK, one=3, other=2)
    undo(state, first)
    assert kept_apart_from(state.model, 2) == [3]
    assert undo(state, third).status == 200


def test_a_refused_undo_of_a_split_changes_nothing_and_keeps_no_name(state):
    merged = do(state, MERGE, one=0, other=1).answer["id"]
    parted = do(state, SPLIT, id=merged)
    do(state, NAME, id=0, name="Ann")
    do(state, NAME, id=parted.answer["part"], name="Zaphod")
    refused = undo(state, parted)
    assert (refused.status, "Zaphod" in refused.answer["error"]) == (422, False)
    assert kept_apart_from(state.model, 0) == [parted.answer["part"]]


def told(state):
    model = state.model
    pairs = {tuple(sorted(pair)) for pair in model._apart.tolist()}
    return pairs, model.names, model.subcluster_ids_.tolist(), model.resultants_.tobytes()


@pytest.mark.parametrize("seed", range(25, 31))
def test_whatever_people_do_events_tell_every_id_and_what_is_refused_changes_nothing(seed):
    generator = np.random.default_rng(seed)
    X, _, _ = make_vmf_mixture(80, 12, 5, concentration=[20.0, 60.0, 150.0][seed % 3], min_angle=0.7, random_state=seed)
    state = Identities(
        Links(
            subcluster_similarity_threshold=[0.75, 0.85, 0.93][seed // 3 % 3],
            merge_clusters=[False, "whole", True, "lone"][seed % 4],
            max_subclusters=12 if seed % 2 else None,
        )
    )
    alive = set()
    kinds = [NAME, MERGE, MUST_LINK, CANNOT_LINK, SPLIT, FORGET]
    for _ in range(60):
        one, other = generator.integers(max(state.next_id, 1), size=2).tolist()
        if generator.random() < 0.4 or not state.is_fitted:
            n_rows = int(generator.integers(1, 6))
            frames = {"frames": [f"{generator.integers(4)}"] * n_rows} if generator.random() < 0.5 else {}
            operation = Operation(ADD, frames, X[generator.integers(80, size=n_rows)].astype(np.float32))
        else:
            kind = kinds[generator.choice(6, p=[0.2, 0.2, 0.15, 0.2, 0.2, 0.05])]
            name = [None, "Ann", "Bob"][generator.integers(3)]
            operation = Operation(kind, {"id": one, "one": one, "other": other, "name": name})
        before = told(state) if state.is_fitted else None
        outcome = state.apply(state.seq + 1, 0.0, operation)
        if outcome.status != 200:
            assert told(state) == before, operation
        for event in outcome.events:
            (alive.add if event.kind in ("born", "split") else alive.discard if event.kind in ("merged", "forgotten")
             else lambda _: None)(event.id)  # fmt: skip
        assert alive == set(state.ids_now().tolist()), operation
        assert state.merged == dict(standing_merges(state.model.history_).tolist())
        if outcome.status == 200 and operation.kind in (NAME, MERGE, MUST_LINK, CANNOT_LINK) and one != other:
            taken_back = undo(state, outcome)
            if taken_back.status == 200:
                pair = {tuple(sorted((one, other)))} if operation.kind in (MERGE, MUST_LINK) else set()
                assert (told(state)[0] - pair, told(state)[1]) == (before[0] - pair, before[1]), operation
                alive |= {event.id for event in taken_back.events if event.kind == "split"}


# ------------------------------------------------------------------------------------------- corrections and frames


def test_pairs_kept_apart_are_not_copied_for_each_vector_and_copies_do_not_see_later_ones():
    X = people(80, 4).astype(np.float64)
    model = Links().partial_fit(X[:40])
    for other in (1, 2, 3):
        model.cannot_link(0, other)
    model.name(1, "Bob")
    model.partial_fit(X[40:41])
    assert model._corrections().apart is model._apart
    before, twin = kept_apart_from(model, 2), copy.copy(model)
    model.must_link(2, 3)
    model.must_link(1, 2)
    assert kept_apart_from(twin, 2) == before
    assert (twin.names, twin._named_ids.tolist()) == ({1: "Bob"}, [1])
    assert kept_apart_from(model, 1) == [0]
    model.partial_fit(X[41:44], frames=[0, 0, 1])
    twin = copy.copy(model)
    pairs = twin._apart.tolist()
    model.partial_fit(np.eye(4, X.shape[1]), frames=[7] * 4)
    assert len(model._apart) > len(pairs)
    assert twin._apart.tolist() == pairs


def test_pairs_of_clusters_that_died_do_not_come_back_with_the_next_frame():
    model = Links(max_subclusters=4)
    eye = np.eye(16)
    model.partial_fit(eye[:4], frames=[0] * 4)
    model.partial_fit(eye[4:8], frames=[1] * 4)
    model.partial_fit(eye[7:8], frames=[2])
    assert set(model._apart.ravel().tolist()) <= set(model.cluster_ids_.tolist())


def test_a_frame_of_a_crowd_is_refused_before_anything_is_learned(state):
    X, _, _ = make_vmf_mixture(1001, 32, 4, concentration=150.0, min_angle=1.0, random_state=1)
    before = told(state)
    refused = state.apply(2, 0.0, Operation(ADD, {"frames": ["a"] * 1001}, X.astype(np.float32)))
    assert (refused.status, "at most 1,000" in refused.answer["error"]) == (422, True)
    assert told(state) == before
    assert state.frames == {}


def test_a_frame_knows_its_ids_after_they_merged(state):
    X = people(80, 4)
    ids = state.apply(2, 0.0, Operation(ADD, {"frames": ["a"] * 2}, X[:2])).answer["ids"]
    assert len(set(ids)) == 2
    outsider = next(number for number in range(4) if number not in ids)
    do(state, MERGE, one=min(outsider, max(ids)), other=max(outsider, max(ids)))
    again = state.apply(state.seq + 1, 0.0, Operation(ADD, {"frames": ["a"] * 2}, X[:2])).answer["ids"]
    assert not set(state.current(ids)) & set(again)


# --------------------------------------------------------------------------------------------------- long histories


def test_past_ids_are_followed_however_long_ago_they_merged(state, monkeypatch):
    do(state, MERGE, one=0, other=3)
    state.model.max_history = 1  # what a million later events come to
    do(state, MERGE, one=1, other=2)
    for number, now in enumerate([0, 1, 1, 0]):
        assert state.current([number]) == [now]
    twin = Identities(state.model)
    twin.take(state.state())
    assert (twin.current([3]), twin.known_as(0), twin.known_as(2)) == ([0], [0, 3], [1, 2])


def test_a_collection_cannot_have_a_short_history(tmp_path):
    with served(tmp_path) as client:
        refused = client.post("/v1/collections", json={"name": "people", "parameters": {"max_history": 10}})
        assert (refused.status_code, "max_history" in refused.json()["error"]) == (422, True)


def test_kept_vectors_outlast_what_the_model_remembers_of_sub_clusters(tmp_path, monkeypatch):
    monkeypatch.setattr(collection_module, "_RENUMBERED", 50)
    X, _, _ = make_vmf_mixture(200, 16, 3, concentration=40.0, min_angle=1.2, random_state=3)
    house = House(tmp_path, LIMITS)
    room = house.create("people", {"class": "Links"}, store_members=True)
    for start in range(0, 200, 20):
        room.do(Operation(ADD, {}, X[start : start + 20].astype(np.float32)))
    room.between(room._flush)
    n_joins = len(room.identities.model._joins)
    assert n_joins > 2
    room.identities.model._joins = room.identities.model._joins[-1:]  # as after a million
    n_kept = room.store._read("SELECT count(*) FROM members")[0][0]
    own = room.identities.model.subclusters_of(1).tolist()
    doomed = len(room.store.members_in(own, 1000))
    room.do(Operation(FORGET, {"id": 1}))
    assert 0 < doomed < n_kept
    left = room.store._read("SELECT count(*) FROM members")[0][0]
    house.close()
    assert left == n_kept - doomed


# ---------------------------------------------------------------------------------------------------------- events


def test_events_of_more_than_memory_holds_leave_no_gap_before_they_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(collection_module, "_MOST_RECENT", 10)
    monkeypatch.setattr(collection_module, "_IDLE_SECONDS", 60.0)
    house = House(tmp_path, LIMITS)
    room = house.create("people", {"class": "Links"})
    room.do(Operation(ADD, {}, np.eye(32, dtype=np.float32)))
    assert [event.number for event in room.events(0)] == list(range(1, 33))
    assert [event.number for event in room.events(3, 4)] == [4, 5, 6, 7]
    room.do(Operation(NAME, {"id": 3, "name": "Ann"}))
    assert [event.number for event in room.events(0)] == list(range(1, 34))
    assert len(room.recent) <= 11
    house.close()


def test_a_stream_of_events_ends_with_its_collection(tmp_path):
    with served(tmp_path) as client:
        create(client)
        ended = threading.Event()

        def listen():
            client.get(f"{HERE}/events/stream")
            ended.set()

        threading.Thread(target=listen, daemon=True).start()
        room = client.house.get("people")
        while not room.listeners:
            time.sleep(0.01)
        client.delete(HERE)
        assert ended.wait(5.0)


# -------------------------------------------------------------------------------------------------------- erasures


def test_an_erasure_waits_for_no_reader_and_cuts_the_log_once_it_can(tmp_path, monkeypatch):
    X = people(60, 3)
    house = House(tmp_path, LIMITS)
    room = house.create("people", {"class": "Links"})
    room.do(Operation(ADD, {}, X))
    room.do(Operation(NAME, {"id": 1, "name": "Zaphod Unforgettable"}))
    seen = room.store.seen_now()  # a copy is being made
    began = time.monotonic()
    room.do(Operation(FORGET, {"id": 1}))
    room.do(Operation(ADD, {}, X[:1]))
    assert time.monotonic() - began < 5.0
    assert holds(tmp_path, b"Zaphod") != []
    seen.close()
    end = time.monotonic() + 10.0
    while holds(tmp_path, b"Zaphod") and time.monotonic() < end:
        room.do(Operation(ADD, {}, X[:1]))  # under load there is no quiet moment
    assert holds(tmp_path, b"Zaphod") == []
    house.close()


def full(*_given, **_rest):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_an_erasure_that_finds_no_room_is_refused_and_finished_later_also_by_a_restart(tmp_path, monkeypatch):
    X = people(60, 3)
    house = House(tmp_path, LIMITS)
    room = house.create("people", {"class": "Links"})
    room.do(Operation(ADD, {}, X))
    room.do(Operation(NAME, {"id": 1, "name": "Zaphod Unforgettable"}))
    with monkeypatch.context() as patch:
        patch.setattr(collection_module, "whole_file", full)
        with pytest.raises(ServiceError, match="Make room, and ask again") as refused:
            room.do(Operation(FORGET, {"id": 1}), "key")
        assert refused.value.status == 507
        assert room.identities.current([1]) == [-1]
        with pytest.raises(ServiceError, match="Make room, and ask again"):
            room.do(Operation(FORGET, {"id": 1}), "key")
        with pytest.raises(ServiceError):
            room.take_snapshot()
        assert room.do(Operation(ADD, {}, X[:1])).status == 200  # others go on
        house.close()
        house = House(tmp_path, LIMITS)  # and a start is none the worse
        room = house.get("people")
        assert room.lookup(X[:1]).tolist() != [-1]
        assert holds(tmp_path, b"Zaphod") != []
    assert room.do(Operation(FORGET, {"id": 1}), "key").answer["ids"] == [1]
    assert holds(tmp_path, b"Zaphod") == []
    house.close()


def test_a_forget_looks_for_room_first(tmp_path, monkeypatch):
    house = House(tmp_path, Limits(min_free_bytes=1 << 20))
    room = house.create("people", {"class": "Links"})
    room.do(Operation(ADD, {}, people(60, 3)))
    usage = collection_module.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(collection_module.shutil, "disk_usage", lambda _: usage._replace(free=(1 << 20) + 1000))
    with pytest.raises(ServiceError, match="nearly full"):
        room.do(Operation(FORGET, {"id": 1}))
    assert room.identities.current([1]) == [1]
    monkeypatch.undo()
    assert room.do(Operation(FORGET, {"id": 1})).status == 200
    house.close()


def test_a_server_starts_on_a_full_disk_and_can_be_read(tmp_path, monkeypatch):
    X = people(60, 3)
    house = House(tmp_path, LIMITS)
    room = house.create("people", {"class": "Links"})
    ids = room.do(Operation(ADD, {}, X), "key").answer["ids"]
    room._followed.clear()  # as if the process had died before it was written
    house.close()

    def refused(*_given):
        raise ServiceError(507, "The disk takes no more.")

    with monkeypatch.context() as patch:
        patch.setattr(collection_module.Store, "follow", refused)
        house = House(tmp_path, LIMITS)
        room = house.get("people")
        assert room.lookup(X).tolist() == ids
        assert [event.number for event in room.events(0)] == [1, 2, 3]
    assert room.do(Operation(ADD, {}, X), "key").answer["ids"] == ids
    house.close()


# ------------------------------------------------------------------------------------------------------ the writer


def test_the_writer_outlives_a_file_that_cannot_be_removed_and_a_request_that_nobody_waits_for(tmp_path, monkeypatch):
    X = people(60, 3)
    house = House(tmp_path, Limits(snapshot_vectors=20, min_free_bytes=0))
    room = house.create("people", {"class": "Links"})

    def denied(self, missing_ok=False):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(collection_module.Path, "unlink", denied)
        for start in range(0, 60, 20):
            room.ask(Operation(ADD, {}, X[start : start + 20])).result(20)
            room.between(lambda: None)
    waiting = [room.ask(Operation(ADD, {}, X[:1])) for _ in range(20)]
    for one in waiting:
        one.cancel()
    assert room.ask(Operation(ADD, {}, X[:1])).result(20).status == 200
    assert room.broken is None
    house.close()


def test_a_snapshot_that_fails_in_any_way_is_tried_again(tmp_path, monkeypatch):
    X = people(60, 3)
    house = House(tmp_path, Limits(snapshot_vectors=20, min_free_bytes=0))
    room = house.create("people", {"class": "Links"})
    with monkeypatch.context() as patch:
        patch.setattr(collection_module, "model_bytes", lambda _: 1 / 0)
        room.do(Operation(ADD, {}, X[:20]))
        room.between(lambda: None)
        room._aside.join()
    assert room.snapshot is None
    room.do(Operation(ADD, {}, X[20:40]))
    room.between(lambda: None)
    room._aside.join()
    room.between(lambda: None)
    assert room.snapshot is not None
    with monkeypatch.context() as patch:  # one that finds no place in the log leaves no file
        patch.setattr(room.store, "keep_snapshot", lambda *_, **__: (_ for _ in ()).throw(ServiceError(507, "full")))
        room.do(Operation(ADD, {}, X[40:]))
        room.between(lambda: None)
        room._aside.join()
        room.between(lambda: None)
    assert [path.name for path in room.folder.glob("snapshot-*")] == [room.snapshot.file]
    house.close()


def test_a_collection_that_stopped_takes_no_snapshot_of_half_an_operation(tmp_path, monkeypatch):
    X = people(60, 3)
    house = House(tmp_path, LIMITS)
    room = house.create("people", {"class": "Links"})
    room.do(Operation(ADD, {}, X[:20]))
    with monkeypatch.context() as patch:
        patch.setattr(room.identities, "_noted", lambda *_: 1 / 0)  # after the model learned
        with pytest.raises(ServiceError):
            room.do(Operation(ADD, {}, X[20:40]), "key")
    with pytest.raises(ServiceError, match="stopped"):
        room.take_snapshot()
    house.close()
    house = House(tmp_path, LIMITS)
    assert house.get("people").do(Operation(ADD, {}, X[20:40]), "key").answer["first"] == 20
    house.close()


def test_a_name_can_be_deleted_again_where_a_folder_could_not_be_removed(tmp_path, monkeypatch):
    house = House(tmp_path, LIMITS)
    with monkeypatch.context() as patch:
        patch.setattr(house_module.shutil, "rmtree", lambda *_, **__: None)
        for _ in range(2):
            house.create("people", {"class": "Links"})
            house.delete("people")
    house.close()
    house = House(tmp_path, LIMITS)
    assert [room.name for room in house.rooms()] == []
    assert [path.name for path in (tmp_path / "collections").iterdir() if path.is_dir()] == []
    house.close()


def test_vectors_get_in_between_the_rows_of_a_long_lookup(tmp_path, monkeypatch):
    monkeypatch.setattr(collection_module, "_STRETCH", 1)
    X = people(60, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = Links().partial_fit(X).predict(X, margin=0.1)
    house = House(tmp_path, LIMITS)
    room = house.create("people", {"class": "Links"})
    assert room.lookup(X).tolist() == [-1] * 60
    room.do(Operation(ADD, {}, X))
    entered = []
    turns = room.identities.model._turns
    enter = turns.enter
    monkeypatch.setattr(turns, "enter", lambda: (entered.append(1), enter())[1])
    assert room.lookup(X, 0.1).tolist() == expected.tolist()
    assert len(entered) >= 60
    house.close()


# ------------------------------------------------------------------------------------------------ what is not known


def test_fields_that_would_do_nothing_are_refused(tmp_path):
    X = people(10, 2)
    with served(tmp_path) as client:
        create(client)
        add(client, X)
        for body in ({"k": 5}, {"labels": [1]}):
            answer = client.post(f"{HERE}/alternatives", json={"vectors": X[:1].tolist(), **body})
            assert (answer.status_code, "is no field" in answer.json()["error"]) == (422, True)
        for words in ("frames=a", "Frame=a", "fram=a", "margins=0.1"):
            answer = client.post(f"{HERE}/vectors?{words}", content=npy(X), headers=NPY)
            assert (answer.status_code, words.split("=")[0] in answer.json()["error"]) == (422, True)
        assert client.post(f"{HERE}/alternatives?k=1", content=npy(X), headers=NPY).status_code == 200


def test_a_collection_is_what_was_asked_for_or_refused(tmp_path):
    labelled = {"vectors": people(20, 2).tolist(), "labels": [0, 1] * 10}
    with served(tmp_path) as client:
        for more in (
            {"preset": "faces", "model": "DDPvMFMeans"},
            {"tune": labelled, "model": "DDPvMFMeans"},
            {"tune": labelled, "preset": "faces"},
        ):
            answer = client.post("/v1/collections", json={"name": "people", **more})
            assert (answer.status_code, "of Links by itself" in answer.json()["error"]) == (422, True)
        create(client, preset="faces", model="Links")
        refused = client.put(f"{HERE}/ids/0/meta", content=b"[1]")
        assert (refused.status_code, refused.json()["error"]) == (422, "The body must be an object; got list.")


def test_metrics_say_nothing_of_collections_that_are_gone(tmp_path):
    with served(tmp_path) as client:
        create(client)
        add(client, people(10, 2))
        assert 'collection="people"' in client.get("/metrics").text
        client.delete(HERE)
        assert 'collection="people"' not in client.get("/metrics").text


def test_bodies_of_all_requests_have_a_limit_and_give_their_room_back(tmp_path):
    X = people(64, 2)
    n_bytes = len(npy(X))
    with served(tmp_path, max_held_bytes=2 * n_bytes, max_body_bytes=2 * n_bytes) as client:
        create(client)
        for _ in range(5):
            add(client, X)
        client.app._n_held = n_bytes + 1  # as if others were at work
        refused = client.post(f"{HERE}/vectors", content=npy(X), headers=NPY)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert client.app._n_held == n_bytes + 1
        assert client.get(HERE).json()["vectors"] == 5 * 64


def test_a_server_whose_threads_are_all_at_work_says_that_it_is_alive(tmp_path, monkeypatch):
    going_on = threading.Event()
    with served(tmp_path) as client:
        create(client)
        add(client, people(10, 2))
        room = client.house.get("people")
        monkeypatch.setattr(room, "lookup", lambda *_: (going_on.wait(20.0), np.zeros(1, np.int64))[1])
        asked = {"content": npy(people(1, 1)), "headers": NPY}
        waiting = [threading.Thread(target=client.post, args=(f"{HERE}/lookup",), kwargs=asked) for _ in range(60)]
        for one in waiting:
            one.start()
        began = time.monotonic()
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 200
        assert time.monotonic() - began < 10.0
        going_on.set()
        for one in waiting:
            one.join()


def test_a_large_body_is_read_aside_and_answered_alike(tmp_path, monkeypatch):
    X = people(40, 3)
    with served(tmp_path) as client:
        create(client, "small")
        create(client, "large")
        first = client.post("/v1/collections/small/vectors", json={"vectors": X.tolist()}).json()
        monkeypatch.setattr(app_module, "_LARGE", 0)
        assert client.post("/v1/collections/large/vectors", json={"vectors": X.tolist()}).json() == first
        refused = client.post("/v1/collections/large/vectors", json={"vectors": [*X.tolist(), [1.0]]})
        assert (refused.status_code, refused.json()["row"]) == (422, 40)


def test_a_state_in_which_ids_went_into_each_other_is_refused(state):
    do(state, MERGE, one=0, other=3)
    found = state.state()
    with pytest.raises(ServiceError, match="went into itself"):
        Identities(state.model).take({**found, "merged": [[1, 2], [2, 1]]})
    assert Identities(state.model).take(found) is None


@pytest.mark.parametrize("n_sought", [20, 0])
def test_answers_lose_forgotten_ids_wherever_they_stand_and_others_are_not_read(tmp_path, monkeypatch, n_sought):
    monkeypatch.setattr(store_module, "_MOST_SOUGHT", n_sought)
    read, without_ids = [], store_module._without_ids
    monkeypatch.setattr(store_module, "_without_ids", lambda *given: (read.append(1), without_ids(*given))[1])
    house = House(tmp_path, LIMITS)
    room = house.create("people", {"class": "Links"})
    eye = np.eye(64, dtype=np.float32)
    parts = [(0, 64), (7, 8), (6, 8), (7, 9), (5, 10), (17, 18), (27, 28)]
    asked = [Operation(ADD, {}, eye[start:stop]) for start, stop in parts]
    for number, operation in enumerate(asked):
        assert room.do(operation, f"key {number}").answer["ids"] == list(range(*parts[number]))
    room.do(Operation(FORGET, {"id": 7}))
    for number, operation in enumerate(asked):
        expected = [-1 if one == 7 else one for one in range(*parts[number])]
        assert room.do(operation, f"key {number}").answer["ids"] == expected
    assert len(read) == (6 if n_sought else 7) * 3  # operation 7 is read too
    house.close()


def test_what_root_writes_for_a_service_belongs_to_its_user(tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(tokens_module.os, "geteuid", lambda: 0, raising=False)
    monkeypatch.setattr(tokens_module.os, "chown", lambda *words: given.append(words[1:]), raising=False)
    tokens = Tokens(tmp_path)
    tokens.create("me", "admin")
    owner = tmp_path.stat()
    assert given == [(owner.st_uid, owner.st_gid)]

    def denied(*_given, **_rest):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(tokens_module.Path, "read_text", denied)
    with pytest.raises(InputError, match="must be readable by the user of the server"):
        Tokens(tmp_path).all()


# ------------------------------------------------------------------------------------ damage, and who reads meanwhile


@pytest.mark.parametrize("damage", ["log", "snapshot", "no log", "facts"])
def test_a_damaged_collection_keeps_nobody_from_the_others(tmp_path, damage):
    X = people(60, 3)
    house = House(tmp_path, LIMITS)
    for name in ("people", "whole"):
        house.create(name, {"class": "Links"}).do(Operation(ADD, {}, X))
        house.get(name).take_snapshot()
    house.close()
    folder = tmp_path / "collections" / "people"
    log, (snapshot,) = folder / "log.sqlite", folder.glob("snapshot-*")
    if damage == "log":
        log.write_bytes(b"not a log " * 1000)
    elif damage == "snapshot":
        snapshot.write_bytes(snapshot.read_bytes()[:-100])
    elif damage == "no log":
        log.unlink()
    else:
        with sqlite3.connect(log) as connection:
            connection.execute("""UPDATE facts SET value = '{"class": "None"}' WHERE name = 'model'""")
            connection.execute("DELETE FROM snapshots")
        connection.close()
    left = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with served(tmp_path) as client:
        assert add(client, X[:5], name="whole") == Links().fit_predict(X)[:5].tolist()
        listed = client.get("/v1/collections").json()
        assert [one["name"] for one in listed["collections"]] == ["whole"]
        assert listed["unopened"] == ["people"]
        assert client.house.damaged["people"]
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["broken"]) == (503, ["people"])
        assert client.get("/metrics").status_code == 200
        for answer in (client.get(HERE), client.post(f"{HERE}/vectors", content=npy(X), headers=NPY)):
            assert answer.status_code == 503
            assert "could not be opened; the log of the server says why" in answer.json()["error"]
            assert str(tmp_path) not in answer.text
        assert client.post("/v1/collections", json={"name": "people"}).status_code == 409
        # nothing is changed of what may yet be mended
        assert all((folder / name).read_bytes() == content for name, content in left.items() if "snapshot" in name)
        assert client.delete(HERE).json() == {"deleted": "people"}
        assert not folder.exists()
        assert client.get("/readyz").status_code == 200
        create(client)
        assert add(client, X) == Links().fit_predict(X).tolist()


def test_the_map_is_drawn_while_ids_change(tmp_path, monkeypatch):
    house = House(tmp_path, LIMITS)
    room = house.create("people", {"class": "Links"})
    room.do(Operation(ADD, {}, people(60, 3)))
    owners, plain = room.identities.model.subcluster_ids_, np.isin

    def isin(*given, **more):
        found = plain(*given, **more)
        owners[owners == 2] = 3  # as learning does, in place: this came between the two looks of the map
        return found

    monkeypatch.setattr(views_module.np, "isin", isin)
    assert len(views_module.places(room, 100)["points"]) == 3
    assert 3 in owners
    house.close()


def test_alternatives_are_told_while_a_step_comes(tmp_path, monkeypatch):
    house = House(tmp_path, LIMITS)
    room = house.create("steps", {"class": "DDPvMFMeans", "parameters": {"max_angle": 0.8}})
    X = people(60, 4)
    room.do(Operation(ADD, {}, X[:1]))
    plain = DDPvMFMeans.transform

    def transform(self, rows):
        room.do(Operation(ADD, {}, X))  # between the ids and the cosines
        return plain(self, rows)

    monkeypatch.setattr(DDPvMFMeans, "transform", transform)
    (found,) = views_module.alternatives(room, X[:1], 10)
    assert [one["id"] for one in found] == [0]
    assert len(room.identities.ids_now()) > 1
    house.close()


def test_an_id_is_shown_while_vectors_come(tmp_path, monkeypatch):
    house = House(tmp_path, LIMITS)
    room = house.create("people", {"class": "Links"})
    generator = np.random.default_rng(0)
    room.do(Operation(ADD, {}, generator.normal(size=(10, 8))))
    faults, is_done = [], threading.Event()

    def read():
        while not is_done.is_set():
            try:
                views_module.identity(room, 3)
            except Exception as error:
                faults.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(60):
        room.do(Operation(ADD, {}, generator.normal(size=(5, 8))))
    is_done.set()
    reader.join()
    house.close()
    assert faults == []
