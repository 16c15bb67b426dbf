from __future__ import annotations

import inspect

import pytest
from tests.making import each


def test_each_case_is_run_in_order_and_stacked_ones_in_all_pairs():
    seen = []

    @each("one", [1, 2])
    @each(("two", "three"), [("a", "b"), ("c", "d")])
    def test(fixture, one, two, three):
        seen.append((fixture, one, two, three))

    assert list(inspect.signature(test).parameters) == ["fixture"]
    test("f")
    assert seen == [("f", 1, "a", "b"), ("f", 1, "c", "d"), ("f", 2, "a", "b"), ("f", 2, "c", "d")]


def test_a_case_that_fails_is_named():
    @each("number", [1, 2, 3])
    def test(number):
        assert number < 2

    with pytest.raises(AssertionError) as caught:
        test()
    assert caught.value.__notes__ == ["in the case of number=2"]


def test_a_name_that_the_test_does_not_take_is_an_error():
    with pytest.raises(TypeError, match="does not take all of seed"):

        @each("seed", [1])
        def test(other):
            pass
