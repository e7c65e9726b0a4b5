"""Which proof a compaction of a history asks for, and what it copies."""

from __future__ import annotations

import random

from lakecore.verify.mode import ProofMode

__all__ = ["drawn_copy", "drawn_mode"]

_MODES = tuple(mode.value for mode in ProofMode)


def drawn_mode(dice: random.Random) -> str:
    """One number of `dice` whatever modes there are: with others, a seed's history stays the same in all else."""
    return _MODES[int(dice.random() * len(_MODES))]


def drawn_copy(dice: random.Random) -> str:
    """What a compaction copies; the row groups of histories are small."""
    return dice.choice(("none", "large", "all", "all"))
