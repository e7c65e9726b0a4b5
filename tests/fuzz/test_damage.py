"""A short run of the byte fuzzer: no decoder crashes, hangs, takes memory without bound or hides what a checksum tells."""

from __future__ import annotations

import random

from tests.fuzz.damage import run_targets
from tests.fuzz.decoders import TARGETS
from tests.fuzz.mutations import mutate

SAFE = [target for target in TARGETS if target != "orc"]


def test_damaged_bytes_are_refused_or_harmless() -> None:
    outcome = run_targets(",".join(SAFE), seed=20_26, cases=1300)
    assert (outcome.bad, outcome.crashes) == ({}, {})
    assert outcome.cases == 1300
    assert outcome.reached == set(SAFE)
    assert outcome.verdicts["refused"] > 700


def test_damaged_orc_files_may_end_the_process_but_nothing_else() -> None:
    """pyarrow's reader of ORC files crashes on some (see ROADMAP): each case here is a process's own risk."""
    outcome = run_targets("orc", seed=20_26, cases=40)
    assert outcome.bad == {}
    assert outcome.cases == 40
    assert outcome.verdicts["refused"] > 10


def test_the_same_seed_makes_the_same_damage() -> None:
    data = bytes(range(256)) * 4
    made = [mutate(data, random.Random(seed)) for seed in range(300)]
    assert made == [mutate(data, random.Random(seed)) for seed in range(300)]
    assert sum(found != data for found in made) > 270
    assert max(map(len, made)) < 2 * len(data)
