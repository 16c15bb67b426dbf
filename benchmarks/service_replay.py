"""Voices and faces sent through the service, with gaps, ends and kill -9 between: what the library alone would answer?

    python -m benchmarks.service_replay --data shared/data      # into benchmarks/results/service_replay.json

A collection is made by `tune` on one half of the persons, over HTTP. The other half, whom nothing was chosen on, come
in requests under keys: utterance by utterance, or photos of three faces (`frames`), some of which go on in the next
request. Between parts the server is left alone for a moment, asked to end or killed, at times with a request under way
that is sent again, and started anew. Each line says how many ids differ from those of the library over the same order,
how many known vectors another id was told for after a restart, how often two of one photo got one id, and how right the
ids are. Halves and orders are those of `benchmarks/surplus_ids.py`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from armillary.client import Client
from armillary.metrics import matched_accuracy_score
from armillary.service.models import made
from benchmarks.link_merging import SETS, rows_of
from benchmarks.service import Server
from benchmarks.surplus_ids import halves

RESULTS = Path(__file__).parent / "results" / "service_replay.json"
N_PARTS, N_KNOWN, N_IN_PHOTO = 5, 200, 3
_GAP_SECONDS = 0.5


def requests_of(chosen: Any, truth: Any, pieces: Any, seed: int) -> tuple[Any, list[tuple[Any, Any]]]:
    """Rows in their order, and the requests that they come in: rows with the photo of each, or None."""
    if pieces is not None:
        cuts = [0, *(np.flatnonzero(np.diff(pieces[chosen])) + 1).tolist(), len(chosen)]
        return chosen, [(chosen[start:stop], None) for start, stop in pairwise(cuts)]
    photos = np.arange(len(chosen)) // N_IN_PHOTO
    _, first = np.unique(np.stack([photos, truth[chosen]]), axis=1, return_index=True)
    kept = np.sort(first)  # of a person who is in one photo twice the second is left out
    chosen, photos = chosen[kept], photos[kept]
    generator = np.random.default_rng(seed)
    inner = np.sort(generator.choice(np.arange(1, len(chosen)), len(chosen) // 20, replace=False)).tolist()
    return chosen, [(chosen[start:stop], photos[start:stop]) for start, stop in pairwise([0, *inner, len(chosen)])]


class Replay:
    """One stream through a server that does not last."""

    def __init__(self, folder: Path, rows: Any, tune: dict[str, Any]) -> None:
        self._folder, self._rows = folder, rows
        self.ids: list[int] = []
        self.n_restarts = self.n_killed = self.n_changed = 0
        self._begin()
        with Client(self._url, timeout=600.0) as client:
            client.create("people", tune=tune)
            self.parameters = client.collection("people").details()["parameters"]

    def _begin(self) -> None:
        self._server = Server(self._folder, None)
        self._url = f"http://127.0.0.1:{self._server.port}"

    def send(self, asked: list[tuple[Any, Any]]) -> None:
        """All requests, with ends of the server between parts of them."""
        stops = np.linspace(0, len(asked), N_PARTS + 1).astype(int)
        for part, (start, stop) in enumerate(pairwise(stops)):
            with Client(self._url) as client:
                for number in range(start, stop):
                    self.ids += self._answer(client, asked[number], number)
                known = self._rows[np.concatenate([rows for rows, _ in asked[:stop]])[-N_KNOWN:]]
                before = client.collection("people").lookup(known)
            time.sleep(_GAP_SECONDS)
            if part + 1 < N_PARTS:
                self._end(asked[stop], int(stop), is_killed=part % 2 == 0)
                self._begin()
                with Client(self._url) as client:
                    self.n_changed += int(np.count_nonzero(client.collection("people").lookup(known) != before))

    def _answer(self, client: Client, asked: tuple[Any, Any], number: int) -> list[int]:
        rows, photos = asked
        body: dict[str, Any] = {"vectors": self._rows[rows].tolist()}
        if photos is not None:
            body["frames"] = [f"photo {photo}" for photo in photos]
        headers = {"idempotency-key": f"request {number}"}
        found: list[int] = client.ask(
            "POST", "/v1/collections/people/vectors", json=body, headers=headers
        ).json()["ids"]  # fmt: skip
        return found

    def _end(self, asked: tuple[Any, Any], number: int, *, is_killed: bool) -> None:
        """Asked to end, or killed while the next request is under way: it may be done or not, its key will tell."""
        self.n_restarts += 1
        if not is_killed:
            self._server.end()
            return
        self.n_killed += 1

        def lost() -> None:
            try:
                with Client(self._url, n_tries=1) as client:
                    self._answer(client, asked, number)
            except httpx.TransportError:
                pass

        sender = threading.Thread(target=lost)
        sender.start()
        time.sleep(0.004)
        self._server.process.kill()
        self._server.process.wait()
        sender.join()

    def current(self) -> Any:
        """The ids by which all go at the end; then the server ends."""
        with Client(self._url) as client:
            parts = [client.collection("people").current(self.ids[start : start + 10_000])
                     for start in range(0, len(self.ids), 10_000)]  # fmt: skip
        self._server.end()
        return np.concatenate(parts)


def replayed(rows: Any, truth: Any, tune_on: Any, stream: Any, pieces: Any, seed: int) -> dict[str, Any]:
    """A line."""
    chosen, asked = requests_of(stream, truth, pieces, seed)
    tune = {"vectors": rows[tune_on].tolist(), "labels": truth[tune_on].tolist()}
    with tempfile.TemporaryDirectory() as home:
        replay = Replay(Path(home, "data"), rows, tune)
        replay.send(asked)
        now = replay.current()
    ids = np.array(replay.ids)
    photos = None if pieces is not None else np.concatenate([photo for _, photo in asked])
    model = made({"class": "Links", "parameters": replay.parameters})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = model.partial_fit_predict(rows[chosen], frames=photos)
    pairs = [] if photos is None else list(zip(photos[ids >= 0].tolist(), ids[ids >= 0].tolist(), strict=True))
    n_persons = len(np.unique(truth[chosen]))
    return {
        "vectors": len(ids), "requests": len(asked), "persons": n_persons,
        "restarts": replay.n_restarts, "of_them_killed": replay.n_killed,
        "ids_unlike_the_library": int(np.count_nonzero(ids != expected)),
        "known_vectors_told_another_id": replay.n_changed,
        "ids_twice_in_a_photo": len(pairs) - len(set(pairs)),
        "matched_accuracy": round(float(matched_accuracy_score(truth[chosen], ids)), 4),
        "of_the_library": round(float(matched_accuracy_score(truth[chosen], expected)), 4),
        "surplus_ids": round(len(np.unique(now)) / n_persons - 1.0, 4),
    }  # fmt: skip


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service_replay")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cuts", type=int, default=1)
    parser.add_argument("--only", help="one set; what is stored of others stays")
    options = parser.parse_args()
    stored = json.loads(RESULTS.read_text())["lines"] if options.only is not None and RESULTS.exists() else []
    lines = [line for line in stored if line["set"] != options.only]
    for title, file, kind, _ in SETS:
        if options.only not in (None, title):
            continue
        rows, who, pieces = rows_of(options.data, file, kind)
        truth = np.unique(who, return_inverse=True)[1]
        for cut in range(options.cuts):
            parts = halves(truth, pieces, cut)
            for side in (0, 1):
                line = replayed(rows, truth, parts[side].plain[0], parts[1 - side].plain[1], pieces, cut)
                lines.append({"set": title, "cut": cut, "tuned_on": "ab"[side], **line})
                print(json.dumps(lines[-1]), flush=True)
    command = "python -m benchmarks.service_replay --data shared/data"
    RESULTS.write_text(json.dumps({"command": command, "lines": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
