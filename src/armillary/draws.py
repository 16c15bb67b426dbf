"""Chance: one seed, named streams, counter keys. There is no global generator and no hidden default seed."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from armillary._typing import RandomState
from armillary.exceptions import ParameterError

_LOW_WORD = 0xFFFFFFFF
# Draws that are held while some are left out.
_AT_ONCE = 1 << 16


def generator(random_state: RandomState) -> np.random.Generator:
    """A NumPy generator from what scikit-learn's users pass as `random_state`.

    An int seeds a new generator, a `Generator` is used as it is, a `RandomState` lends its bit generator (both
    then advance), and None takes fresh entropy from the system.
    """
    check_random_state(random_state)
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.Generator(random_state._bit_generator)
    return np.random.default_rng(None if random_state is None else int(random_state))


def check_random_state(random_state: RandomState) -> None:
    """Refuse what no generator can be made of."""
    if random_state is None or isinstance(random_state, np.random.Generator | np.random.RandomState):
        return
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return
    raise ParameterError(
        "`random_state` must be None, an int >= 0, a numpy Generator or a RandomState; "
        f"got {random_state!r}. Pass an int for a result that repeats."
    )


def skip_uniforms(generator: np.random.Generator, n_draws: int) -> None:
    """Leave the generator as if `generator.random(n_draws)` had been called."""
    bits = generator.bit_generator
    if not isinstance(bits, np.random.PCG64):
        for start in range(0, n_draws, _AT_ONCE):
            generator.random(min(_AT_ONCE, n_draws - start))
        return
    before = bits.state
    bits.advance(n_draws)
    after = bits.state
    # of a draw of 32 bits, the other half
    after["has_uint32"], after["uinteger"] = before["has_uint32"], before["uinteger"]
    bits.state = after


@dataclass(frozen=True)
class Stream:
    """All the chance of one fit, drawn from one 64-bit seed by name.

    Draws are keyed by purpose, never by the order in which they are asked for, so adding a consumer
    does not change the draws of another, and a resumed fit draws what the uninterrupted one would have.
    """

    seed: int

    @classmethod
    def of(cls, random_state: RandomState) -> Stream:
        """The stream of a `random_state`; a generator passed in advances by one draw."""
        return cls(int(generator(random_state).integers(0, 2**63)))

    def generator(self, purpose: str, *index: int) -> np.random.Generator:
        """An independent generator for `purpose` (and a restart, sweep, ...)."""
        return np.random.default_rng(self._sequence(purpose, index))

    def key(self, purpose: str, *index: int) -> tuple[int, int]:
        """Two 32-bit words: the Philox key under which every row has a draw of its own."""
        first, second = self._sequence(purpose, index).generate_state(2)
        return int(first), int(second)

    def _sequence(self, purpose: str, index: tuple[int, ...]) -> np.random.SeedSequence:
        # SeedSequence reads its entropy as 32-bit words and pads with zeros: the length comes first, and every number
        # takes two words, so that no two indices run into each other
        words = [len(index), zlib.crc32(purpose.encode())]
        for number in (self.seed, *index):
            words += [number & _LOW_WORD, number >> 32]
        return np.random.SeedSequence(words)
