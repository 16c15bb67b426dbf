"""Who may ask, from where and how much; nothing secret is told."""

from __future__ import annotations

import logging
import socket
import threading
import time
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from tests.service.making import add, create, people, served, state_of
from tests.service.running import Running

from armillary.exceptions import InputError, ParameterError
from armillary.service.guard import needed_scope
from armillary.service.server import serve
from armillary.service.settings import Settings, settings_from
from armillary.service.tokens import Tokens


@pytest.fixture
def secured(tmp_path):
    tokens = Tokens(tmp_path)
    given = {scope: tokens.create(f"{scope}er", scope) for scope in ("read", "write", "admin")}
    with served(tmp_path, no_auth=False) as client:
        answer = client.post("/v1/collections", json={"name": "people"}, headers=bearer(given["admin"]))
        assert answer.status_code == 201
        yield client, given


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def routes(client):
    paths = client.get("/v1/openapi.json", headers=bearer(client.given["admin"])).json()["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


def test_every_request_that_changes_something_needs_its_token(secured):
    client, given = secured
    client.given = given
    body = {"one": 0, "other": 1}
    before = state_of(client)
    n_checked = 0
    for method, path in routes(client):
        here = path.replace("{name}", "people").replace("{number}", "0")
        needed = needed_scope(method, here)
        if needed is None:
            continue
        n_checked += 1
        assert client.request(method, here, json=body).status_code == 401
        assert client.request(method, here, json=body, headers=bearer("arm_wrong")).status_code == 401
        assert client.request(method, here, json=body, headers={"authorization": given["admin"]}).status_code == 401
        if needed != "read":
            assert client.request(method, here, json=body, headers=bearer(given["read"])).status_code == 403
        if needed == "admin":
            assert client.request(method, here, json=body, headers=bearer(given["write"])).status_code == 403
    assert n_checked > 25
    assert state_of(client) == before
    assert client.get("/healthz").status_code == 200


def test_no_method_that_writes_counts_as_reading():
    assert needed_scope("GET", "/v1/collections/a/events") == "read"
    assert needed_scope("POST", "/v1/collections/a/lookup") == "read"
    assert needed_scope("PUT", "/v1/collections/a/lookup") == "write"
    assert needed_scope("POST", "/v1/collections/a/vectors") == "write"
    assert needed_scope("POST", "/v1/collections/a/forget") == "admin"
    assert needed_scope("POST", "/v1/collections/lookup") == "admin"
    assert needed_scope("DELETE", "/v1/collections/a") == "admin"
    assert needed_scope("PUT", "/v1/collections/a/model") == "admin"  # it makes a collection
    assert needed_scope("GET", "/v1/collections/a/export") == "admin"
    assert needed_scope("POST", "/") == "admin"


def test_a_page_of_the_web_reaches_nothing(tmp_path):
    with served(tmp_path) as client:
        create(client)
        for headers, status in (
            ({"host": "evil.example"}, 421),
            ({"host": "127.0.0.1.evil.example"}, 421),
            ({"origin": "https://evil.example"}, 403),
            ({"origin": "null"}, 403),
            ({"origin": "http://127.0.0.1:9999"}, 403),
            ({"sec-fetch-site": "cross-site"}, 403),
            ({"sec-fetch-site": "same-site"}, 403),
        ):
            assert client.get("/v1/collections", headers=headers).status_code == status, headers
            assert client.post("/v1/collections", json={"name": "x"}, headers=headers).status_code == status
        for headers in ({"origin": "http://127.0.0.1"}, {"host": "LocalHost:80", "origin": "http://localhost:80"}):
            assert client.get("/v1/collections", headers=headers).status_code == 200
        asked = {"origin": "https://evil.example", "access-control-request-method": "POST"}
        answer = client.request("OPTIONS", "/v1/collections", headers=asked)
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.startswith("access-control")]
        page = client.get("/")
        assert "default-src 'none'" in page.headers["content-security-policy"]


@pytest.mark.parametrize("name", ["host", "origin", "authorization", "Idempotency-Key", "content-type"])
def test_what_decides_is_said_once(tmp_path, name):
    with served(tmp_path) as client:
        create(client)
        before = state_of(client)
        twice = [("host", "127.0.0.1")] * (name != "host") + [(name, "127.0.0.1"), (name, "evil.example")]
        answer = client.put("/v1/collections/people/ids/0/name", headers=twice, content=b'{"name": "Ann"}')
        assert (answer.status_code, f"one header {name.lower()}; got 2" in answer.json()["error"]) == (400, True)
        assert state_of(client) == before


def test_logs_have_neither_vectors_nor_tokens(secured, caplog):
    client, given = secured
    X = np.full((1, 4), 0.123456789)
    with caplog.at_level(logging.DEBUG, "armillary.service"):
        for token in (given["write"], "arm_wrong_secret"):
            client.post(
                f"/v1/collections/people/vectors?frame=private&token={token}",
                json={"vectors": X.tolist()},
                headers=bearer(token),
            )
    told = "\n".join(str(vars(record)) for record in caplog.records)
    assert "writeer" in told
    for secret in (given["write"], "arm_wrong_secret", "0.1234", "private"):
        assert secret not in told


def test_spans_say_what_logs_say_within_the_span_of_whoever_asks(tmp_path):
    spans = []

    class Span:
        def __init__(self, **given):
            self.given, self.told = given, {}
            spans.append(self)

        def update_name(self, name):
            self.name = name

        def set_attributes(self, told):
            self.told = told

    trace = SimpleNamespace(
        ProxyTracerProvider=int, get_tracer_provider=object, SpanKind=SimpleNamespace(SERVER="server"),
        get_tracer=lambda name: SimpleNamespace(start_as_current_span=lambda name, **given: nullcontext(Span(**given))),
    )  # fmt: skip
    with served(tmp_path) as client:
        metrics = client.app.app.state.metrics
        metrics._trace, metrics._propagate = trace, SimpleNamespace(extract=lambda headers: headers.get("traceparent"))
        create(client)
        client.post("/v1/collections/people/lookup?frame=private", json={"vectors": []}, headers={"traceparent": "a"})
    assert [(span.name, span.given) for span in spans] == [
        ("POST /v1/collections", {"context": None, "kind": "server"}),
        ("POST /v1/collections/{name}/lookup", {"context": "a", "kind": "server"}),
    ]
    assert spans[1].told == {
        "http.request.method": "POST", "http.route": "/v1/collections/{name}/lookup",
        "http.response.status_code": 422, "armillary.collection": "people",
    }  # fmt: skip


def test_tokens_are_hashed_revoked_and_checked(tmp_path):
    tokens = Tokens(tmp_path)
    secret = tokens.create("phone", "write")
    assert secret not in (tmp_path / "tokens.json").read_text()
    assert (tmp_path / "tokens.json").stat().st_mode & 0o077 == 0
    assert tokens.holder(secret).scope == "write"
    assert Tokens(tmp_path).holder(secret[:-1]) is None
    with pytest.raises(InputError, match="already"):
        tokens.create("phone", "read")
    with pytest.raises(InputError, match="read, write, admin"):
        tokens.create("other", "root")
    tokens.revoke("phone")
    assert tokens.holder(secret) is None
    with pytest.raises(InputError, match="There is no token"):
        tokens.revoke("phone")


def test_a_stream_of_events_ends_with_its_token(secured, tmp_path):
    client, given = secured
    X = people(20, 2)
    told, tokens = [], Tokens(tmp_path)

    def listen():
        answer = client.get("/v1/collections/people/events/stream?since=0", headers=bearer(given["read"]))
        told.append((answer.status_code, answer.text))

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    while not client.house.get("people").listeners:
        time.sleep(0.01)
    tokens.revoke("reader")
    add(client, X, **bearer(given["write"]))
    listener.join(5.0)
    assert not listener.is_alive()
    assert told[0][0] == 200
    assert "born" not in told[0][1]
    assert client.get("/v1/collections/people/events/stream", headers=bearer(given["read"])).status_code == 401


def test_streams_of_events_leave_others_room(tmp_path):
    with served(tmp_path, max_connections=4) as client:
        create(client)
        room, stream = client.house.get("people"), "/v1/collections/people/events/stream"
        listeners = [threading.Thread(target=client.get, args=(stream,), daemon=True) for _ in range(2)]
        for listener in listeners:
            listener.start()
        while len(room.listeners) < 2:
            time.sleep(0.01)
        refused = client.get(stream)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
        assert client.get("/v1/collections/people/events").status_code == 200
        client.delete("/v1/collections/people")
        for listener in listeners:
            listener.join(5.0)
            assert not listener.is_alive()


def test_tokens_that_cannot_be_read_let_nobody_in_and_say_so(secured, tmp_path):
    client, given = secured
    (tmp_path / "tokens.json").write_text("{")
    answer = client.get("/v1/collections", headers=bearer(given["admin"]))
    assert answer.status_code == 503
    assert "The tokens cannot be read" in answer.json()["error"]
    assert str(tmp_path) not in answer.text


def test_settings_come_from_file_environment_and_flags(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text('port = 1000\nrate = 5\nhost = "127.0.0.1"\n')
    found = settings_from(
        str(file), {"ARMILLARY_PORT": "2000", "ARMILLARY_NO_AUTH": "yes", "OTHER": "1"}, {"rate": 7.0}
    )
    assert (found.port, found.rate, found.no_auth) == (2000, 7.0, True)
    assert "port = 2000" in found.lines()
    for given in (
        {"host": "0.0.0.0", "no_auth": True},
        {"port": 0},
        {"rate": -1.0},
        {"log_level": "loud"},
    ):
        with pytest.raises(ParameterError):
            settings_from(None, {}, given)
    for text in ("prot = 1", "port = 'x'", "port = ["):
        file.write_text(text)
        with pytest.raises((ParameterError, InputError)):
            settings_from(str(file), {}, {})
    with pytest.raises(ParameterError, match="ARMILLARY_PORT"):
        settings_from(None, {"ARMILLARY_PORT": "many"}, {})
    assert Settings().is_loopback


def test_a_certificate_that_is_none_is_named(tmp_path):
    (tmp_path / "x.pem").write_text("no certificate")
    for name in ("x.pem", "none.pem"):
        with pytest.raises(ParameterError, match=f"`certfile` and `keyfile` must be PEM files.*{name}"):
            serve(Settings(data=str(tmp_path / "data"), no_auth=True, certfile=str(tmp_path / name)))
    assert not (tmp_path / "data").exists()


def test_hostile_words_come_back_as_they_are_and_harm_nothing(tmp_path):
    X = people(10, 2)
    hostile = "<img src=x onerror=alert(1)>'; DROP TABLE events; -- \u202e"
    with served(tmp_path) as client:
        create(client)
        add(client, X)
        here = "/v1/collections/people"
        refused = client.put(f"{here}/ids/0/name", json={"name": hostile})
        assert refused.status_code == 422  # it turns the direction of writing
        assert client.put(f"{here}/ids/0/name", json={"name": hostile[:-2]}).status_code == 200
        assert client.get(f"{here}/ids/0").json()["name"] == hostile[:-2]
        key = {"idempotency-key": "x' OR '1'='1"}
        assert add(client, X[:1], **key) == add(client, X[:1], **key)


def test_slow_and_endless_clients_are_sent_away(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    running = Running(folder, ARMILLARY_HEADER_SECONDS="1", ARMILLARY_BODY_SECONDS="1", ARMILLARY_MAX_BODY_BYTES="1000")
    try:
        assert running.wait()
        with socket.create_connection(("127.0.0.1", running.port)) as slow:
            slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127")
            slow.settimeout(20.0)
            assert slow.recv(100) == b""  # closed: the header never came
        with socket.create_connection(("127.0.0.1", running.port)) as slow:
            slow.sendall(b"POST /v1/collections HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
            slow.settimeout(20.0)
            assert b" 408 " in slow.recv(100)
        with socket.create_connection(("127.0.0.1", running.port)) as endless:
            endless.sendall(b"POST /v1/collections HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n")
            endless.settimeout(20.0)
            for _ in range(3):
                endless.sendall(b"200\r\n" + b"x" * 512 + b"\r\n")
            assert b" 413 " in endless.recv(100)
        with socket.create_connection(("127.0.0.1", running.port)) as kept:
            kept.settimeout(20.0)
            for _ in range(2):
                kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                answer = b""
                while not answer.endswith(b"}"):
                    answer += kept.recv(4000)
                assert b" 200 " in answer
            kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127")
            began = time.monotonic()
            assert kept.recv(100) == b""  # closed, as on the first request
            assert time.monotonic() - began < 10.0
        with socket.create_connection(("127.0.0.1", running.port)) as endless:
            endless.settimeout(20.0)
            headers = b"GET / HTTP/1.1\r\n" + 64_000 * (1000 * b"x" + b": y\r\n")  # more than buffers hold
            with pytest.raises((ConnectionResetError, BrokenPipeError)):
                endless.sendall(headers)
        assert running.end() == 0
    finally:
        running.process.kill()


def test_without_a_token_nothing_listens(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    running = Running(folder, "--host", "0.0.0.0", no_auth=False)
    assert running.process.wait(60) == 2
    assert "must have a token" in (tmp_path / "data.log").read_text()
    running.no_auth = True
    running.start()
    assert running.process.wait(60) == 2
    assert "`no_auth` needs a host" in (tmp_path / "data.log").read_text()
    assert not (folder / "collections").exists()
