"""Byte strings in numpy are those that went in."""

from __future__ import annotations

import random

from lakecore.metadata.manifest import byte_words
from lakecore.metadata.manifest.byte_words import ByteWords

ENDINGS = (b".parquet", b".avro.gz", b".gz", b"", b".", b".a.b.", b".orc", b".orc2")


def test_strings_with_the_same_ending_have_the_same_number() -> None:
    for seed in range(40):
        draw = random.Random(seed)
        kinds = [
            bytes([draw.randrange(97, 123)]) + draw.choice(ENDINGS) for _ in range(draw.randrange(1, 90))
        ]
        names = [
            draw.randbytes(draw.randrange(30)).replace(b".", b"") + draw.choice(kinds) for _ in range(500)
        ]
        before, byte_words._ENDINGS_AT_ONCE = byte_words._ENDINGS_AT_ONCE, draw.choice([1, 70, 1 << 15])
        try:
            numbers = ByteWords.from_bytes(names).end_numbers(b".").tolist()
        finally:
            byte_words._ENDINGS_AT_ONCE = before
        endings = [name.split(b".", 1)[-1] for name in names]
        assert len(set(zip(numbers, endings, strict=True))) == len(set(numbers)) == len(set(endings))
    assert len(ByteWords.from_bytes([]).end_numbers(b".")) == 0
