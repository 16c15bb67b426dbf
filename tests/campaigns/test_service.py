"""A little of the campaigns against the service; `make fuzz-service` runs them at length."""

from __future__ import annotations

import pytest
from tests.campaigns.campaign import clean_run
from tests.service.running import shim


def test_kills_at_writes_lose_nothing():
    if shim() is None:
        pytest.skip("no compiler for tests/service/killing.c")
    assert clean_run("service_kills", seed=11, trials=2)["kills"] >= 1


def test_bodies_that_nobody_meant_change_nothing():
    found = clean_run("service_bodies", seed=11, trials=1)
    assert "500" not in found
    assert found["422"] > 20
