"""The sentences of a docstring behind its first: which of them have no verb?

This is cheaper than the rules for first sentences (`grammar.py`): any word that can be a verb counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.support.grammar import (
    AMBIGUOUS,
    AUXILIARIES,
    FINITE,
    IMPERATIVES,
    PAST,
    PLURAL,
    PLURAL_ONLY,
    has_main_verb,
)

__all__ = ["fragments", "later_sentences"]

VERBS = frozenset(
    {
        *(
            "add",
            "adjoin",
            "appear",
            "begin",
            "call",
            "cannot",
            "change",
            "come",
            "compare",
            "continue",
            "cost",
        ),
        *("count", "cover", "decide", "delay", "differ", "equal", "expire", "fail", "fall", "find", "follow"),
        *(
            "form",
            "go",
            "grow",
            "hash",
            "hold",
            "join",
            "keep",
            "lack",
            "lead",
            "leave",
            "lie",
            "live",
            "lose",
        ),
        *(
            "make",
            "match",
            "merge",
            "move",
            "need",
            "overlap",
            "overflow",
            "overtake",
            "pass",
            "read",
            "rest",
        ),
        *(
            "satisfy",
            "say",
            "see",
            "share",
            "show",
            "speak",
            "start",
            "stand",
            "stay",
            "stop",
            "store",
            "tell",
        ),
        *(
            "travel",
            "turn",
            "use",
            "vanish",
            "wait",
            "work",
            "write",
            "rid",
            "rids",
            "narrows",
            "reads",
            "ends",
        ),
        *(
            "guesses",
            "hashes",
            "holds",
            "combines",
            "handles",
            "fills",
            "decides",
            "kills",
            "directs",
            "costs",
        ),
        *("empties", "decrease", "build", "tile", "reserves", "pickles"),
        *("carry", "give", "refuse", "record", "have", "warns", "gets", "pickle", "get", "state"),
    }
)
"""Verbs that the lists of `grammar.py` lack, or count as nouns in a first sentence."""

LABEL = re.compile(
    r"(Rules? of|Spec|Source|Layout|Bytes|Version|Memory|Cost|Disk|Reference|State \d|None:|For |In |"
    r"No IO|Pure|(``?[^`]+``?(, )?)+( \([^)]*\))?(:| None:)|[A-Z_]{3,}:|[^:.]{1,40}: )"
)
"""Sentences that begin so are notes: a label and what it labels."""


def later_sentences(text: str) -> Iterator[str]:
    """Yield the sentences behind the first, but those of lists, tables and code."""
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text)):
        lines = paragraph.split("\n")
        if any(re.match(r"\s*([-*:>|]|\d+\.|\w+\s{2,}|    )", line) for line in lines):
            continue
        joined = " ".join(line.strip() for line in lines)
        sentences = re.split(r"(?<=[.!?])\s+(?=[A-Z`])", joined)
        yield from sentences[1:] if number == 0 else sentences


def fragments(text: str) -> Iterator[str]:
    """Yield the later sentences of a docstring without a verb, or with a verb and no subject (but `Raises`)."""
    for sentence in later_sentences(text):
        words = re.findall(r"[A-Za-z]+", sentence)
        if not words or words[0] == "Raises" or LABEL.match(sentence):
            continue
        rest = {word.lower() for word in words[1:]}
        has_verb = rest & (VERBS | FINITE | AUXILIARIES | PAST | PLURAL | PLURAL_ONLY | AMBIGUOUS)
        imperative = words[0] in IMPERATIVES or words[0] in ("Use", "Pass", "See")
        if not (imperative or has_main_verb(sentence) or has_verb) or SUBJECTLESS.match(sentence):
            yield sentence


SUBJECTLESS = re.compile(
    r"(Costs|Reads|Holds|Returns|Pickles|Looks|Ends|Starts|Gives|Iterates|Plans|Needs|Puts|Does|Keeps|Takes|Yields)"
    r"\b(?! (show|of|that|which)\b|:)"
)
