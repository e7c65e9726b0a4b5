"""Rules of thumb for English: does a docstring's first sentence have a main verb?

The words are lists, not guesses (`verbs.txt`): a docstring that rests on a verb which is in none of them is refused, and whoever
writes it adds the verb. `tests/lakecore/test_language.py` asks.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["has_main_verb"]


def _words() -> dict[str, frozenset[str]]:
    """Return the words of each heading of `verbs.txt`."""
    text = re.sub(r"^#.*\n", "", (Path(__file__).parent / "verbs.txt").read_text(), flags=re.MULTILINE)
    parts = re.findall(r"^\[(\w+)\] .*\n([^\[]*)", text, re.MULTILINE)
    return {name: frozenset(words.split()) for name, words in parts}


_LISTS = _words()
IMPERATIVES = _LISTS["imperatives"]
AUXILIARIES = _LISTS["auxiliaries"]
FINITE = _LISTS["finite"]
AMBIGUOUS = _LISTS["ambiguous"]
PLURAL = _LISTS["plural"]
PLURAL_ONLY = _LISTS["plural_only"]
PAST = _LISTS["past"]
PARTICIPLES = _LISTS["participles"]
SUBORDINATORS = _LISTS["subordinators"]
ARTICLES = _LISTS["articles"]
AFTER_A_VERB = _LISTS["after_a_verb"]
NOT_AFTER_A_VERB = _LISTS["not_after_a_verb"]
MODALS = _LISTS["modals"]
CLAUSES = _LISTS["clauses"]


def has_main_verb(text: str) -> bool:
    """Return whether the first sentence of `text` has a main verb, as far as lists of words can tell."""
    paragraph = re.sub(r"``?[^`]*``?", "it", text.strip().split("\n\n")[0])
    sentence = re.split(r"(?<=[.?!])\s", re.sub(r"\s+", " ", paragraph))[0]
    words = re.findall(r"[A-Za-z][A-Za-z'-]*|[:;]", sentence.lstrip(":; "))
    if not words:
        return True
    if words[0] in IMPERATIVES and not re.match(r"\w+( of\b|, \w+ and \w+ of\b)", sentence):
        return True
    if words[0] in CLAUSES or words[0].lower() in FINITE:
        return False
    clauses = 0  # begun, and without their verb so far
    for place, word in enumerate(words):
        if word in ":;":
            clauses = 0
        elif word in SUBORDINATORS:
            clauses += 1
        elif _is_infinitive(words, place):
            continue
        elif clauses:
            clauses -= _ends_clause(words, place)
        elif _is_main(words, place):
            return True
    return False


def _is_infinitive(words: list[str], place: int) -> bool:
    return words[place] in ("be", "been", "have", "not") and words[place - 1].lower() in MODALS | {
        "not",
        "to",
    }


def _ends_clause(words: list[str], place: int) -> bool:
    """Return whether this is the verb of a clause; a word that may be a noun is one only if no other verb follows."""
    word, after_article = words[place], words[place - 1].lower() in ARTICLES
    if word in FINITE | AUXILIARIES | PLURAL_ONLY | PAST | PARTICIPLES:
        return True
    if after_article:
        return False
    if re.fullmatch(r"[a-z]{3,}ed", word):
        return True
    if word not in PLURAL | AMBIGUOUS:
        return False
    for later in words[place + 1 :]:
        if later in ":;" or later in SUBORDINATORS:
            return True
        if later in FINITE | AUXILIARIES | PLURAL_ONLY:
            return False
    return True


def _is_main(words: list[str], place: int) -> bool:
    """Return whether this is the main verb, where no clause is open."""
    word, before = words[place], words[place - 1].lower() if place else ""
    after = words[place + 1].lower() if place + 1 < len(words) else ""
    subject = words[0]
    return place > 0 and (
        word in AUXILIARIES | PAST
        or (word in FINITE and before not in ARTICLES)
        or (word in PLURAL_ONLY and before != "to")
        or (subject in ("This", "These", "It") and place <= 2 and (word in AMBIGUOUS or word.endswith("ed")))
        or (
            subject in ("The", "A", "An", "Each", "Every", "No", "Another")
            and place == 2
            and word in AMBIGUOUS
            and after not in NOT_AFTER_A_VERB | {""}
        )
        or (word in AMBIGUOUS and after in AFTER_A_VERB and before not in ARTICLES)
        or (
            subject == "This"
            and place == 2
            and words[1] in ("module", "package", "class")
            and word.endswith("s")
        )
        or (subject in ("These", "Only") and place >= 2 and word in PLURAL)
        or (word in PLURAL and (before.endswith("s") or before in ("they", "you")) and before not in ARTICLES)
    )
