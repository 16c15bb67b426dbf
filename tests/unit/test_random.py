"""Chance: what may seed a fit, streams that do not disturb each other, and no generator behind the back."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from armillary.draws import Stream, generator
from armillary.exceptions import ParameterError


def draws(source):
    return source.integers(0, 1 << 62, size=4).tolist()


# -------------------------------------------------------------------------------------------------- random_state


@pytest.mark.parametrize("seed", [0, 7, np.int64(7), np.uint8(7), 2**32, 2**100])
def test_an_int_seeds_a_new_generator(seed):
    assert draws(generator(seed)) == draws(generator(seed)) == draws(np.random.default_rng(int(seed)))


def test_a_generator_is_used_as_it_is():
    given = np.random.default_rng(0)
    assert generator(given) is given


def test_a_random_state_lends_its_bits_and_both_advance():
    given, twin = np.random.RandomState(0), np.random.RandomState(0)
    first, second = draws(generator(given)), draws(generator(given))
    assert first != second
    assert first == draws(generator(twin))
    assert given.randint(1 << 30) != np.random.RandomState(0).randint(1 << 30)


def test_none_takes_fresh_entropy():
    assert draws(generator(None)) != draws(generator(None))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (-1, "-1"),
        (np.int64(-3), "np.int64(-3)"),
        (1.0, "1.0"),
        ("seed", "'seed'"),
        (True, "True"),
        (False, "False"),
        (np.True_, "np.True_"),
        ([1, 2], "[1, 2]"),
        (np.array(3), "array(3)"),
    ],
)
def test_sentence_about_random_state(value, shown):
    for call in (generator, Stream.of):
        with pytest.raises(ParameterError) as caught:
            call(value)
        assert str(caught.value) == (
            f"`random_state` must be None, an int >= 0, a numpy Generator or a RandomState; got {shown}. "
            "Pass an int for a result that repeats."
        )


# -------------------------------------------------------------------------------------------------------- streams


def test_a_stream_repeats_by_seed():
    assert Stream.of(3) == Stream.of(3)
    assert Stream.of(3) != Stream.of(4)
    assert Stream.of(None) != Stream.of(None)
    assert 0 <= Stream.of(3).seed < 2**63


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_a_generator_advances_by_one_draw(make):
    given, twin = make(0), make(0)
    stream = Stream.of(given)
    assert stream.seed == int(generator(twin).integers(0, 2**63))
    assert draws(generator(given)) == draws(generator(twin))
    assert Stream.of(given) != stream


def test_draws_do_not_depend_on_who_else_draws():
    alone = draws(Stream(5).generator("start", 2))
    stream = Stream(5)
    draws(stream.generator("other"))
    draws(stream.generator("start", 1))
    assert draws(stream.generator("start", 2)) == alone
    assert stream == Stream(5)


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**32, 2**63 - 1])
def test_purposes_restarts_and_sweeps_have_draws_of_their_own(seed):
    names = [("start",), ("labels",), ("labels ",), ("",)]
    indices = [*itertools.product(range(1, 6)), *itertools.product(range(1, 4), range(1, 4))]
    places = [*names, *((*name, *index) for name in names for index in indices)]
    stream = Stream(seed)
    assert len({stream.key(*place) for place in places}) == len(places)
    assert len({tuple(draws(stream.generator(*place))) for place in places}) == len(places)


def test_seeds_have_draws_of_their_own():
    seeds = [0, 1, 2, 2**31, 2**32, 2**32 + 1, 2**62]
    assert len({Stream(seed).key("start", 1) for seed in seeds}) == len(seeds)


def test_a_key_is_two_words_of_32_bits():
    words = [word for step in range(200) for word in Stream(9).key("draw", step)]
    assert all(type(word) is int and 0 <= word < 2**32 for word in words)
    # with 400 words, all below 2^31 has probability 2^-400
    assert max(words) >= 2**31
    assert Stream(9).key("draw", 3) == Stream(9).key("draw", 3)


def test_keys_are_pinned():
    # NumPy keeps SeedSequence as it is for ever, and so must the way we ask it
    assert Stream(1).key("start", 1) == (2173392589, 924060328)


def test_the_global_generator_is_left_alone():
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    draws(Stream.of(None).generator("start"))
    draws(generator(None))
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_indices_do_not_run_into_each_other():
    stream = Stream(3)
    indices = [(), (0,), (0, 0), (1,), (2**32,), (0, 1), (2**32 + 1,), (1, 1)]
    assert len({stream.key("x", *index) for index in indices}) == len(indices)
