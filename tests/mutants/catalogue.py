"""The list of one-line bugs (mutants), kept as text in `lists/<area>.txt`.

    == lakecore/lsm/runs.py

    lsm-example: what goes wrong, in plain words
    @ def drops_deletes
    - output_level >= highest
    + output_level >= highest - 1

`-` is a piece of one line of the file and `+` what stands there in the mutant. `@`, which may be left out, is a text
behind which the piece is looked for. A piece must be found in exactly one place: in the whole file, or, with `@`, it is
the first one behind the only place of that text. `\\n` at the end of a line or between lines stands for a new line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LISTS", "ROOT", "Mutant", "MutantError", "mutants", "parse"]

ROOT = Path(__file__).resolve().parents[2]
LISTS = Path(__file__).resolve().parent / "lists"


class MutantError(ValueError):
    """A mutant that does not apply, or a list that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One bug: in `file`, behind the text `after` (empty: anywhere), `old` becomes `new`."""

    id: str
    area: str
    file: str
    says: str
    old: str
    new: str
    after: str = ""

    @property
    def digest(self) -> str:
        """Tells this mutant from one of the same id that was changed since."""
        parts = (self.file, self.after, self.old, self.new)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    def place(self, text: str) -> int:
        """Where the piece is in the text of the file. Raises MutantError unless that is one place."""
        start = 0
        if self.after:
            if text.count(self.after) != 1:
                raise MutantError(
                    f"{self.id}: {self.after!r} is {text.count(self.after)} times in {self.file}"
                )
            start = text.index(self.after) + len(self.after)
        elif text.count(self.old) != 1:
            raise MutantError(f"{self.id}: {self.old!r} is {text.count(self.old)} times in {self.file}")
        at = text.find(self.old, start)
        if at < 0:
            raise MutantError(f"{self.id}: {self.old!r} is not behind {self.after!r} in {self.file}")
        return at

    def applied(self, text: str) -> str:
        """The text of the file with the bug. Raises MutantError."""
        at = self.place(text)
        return text[:at] + self.new + text[at + len(self.old) :]


def mutants(lists: Path = LISTS) -> tuple[Mutant, ...]:
    """All of them, area by area. Raises MutantError for a list that cannot be read, and an id that is there twice."""
    found = [mutant for path in sorted(lists.glob("*.txt")) for mutant in parse(path.read_text(), path.stem)]
    seen: set[str] = set()
    for mutant in found:
        if mutant.id in seen:
            raise MutantError(f"two mutants are called {mutant.id}")
        seen.add(mutant.id)
    return tuple(found)


def parse(text: str, area: str) -> Iterator[Mutant]:
    """The mutants of one list. Raises MutantError that names the paragraph."""
    file = ""
    for paragraph in text.split("\n\n"):
        lines = [line for line in paragraph.splitlines() if line.strip() and not line.startswith("#")]
        if lines and lines[0].startswith("== "):
            file = lines.pop(0).removeprefix("== ").strip()
        if lines:
            yield _mutant(lines, file, area)


def _mutant(lines: list[str], file: str, area: str) -> Mutant:
    name, colon, says = lines[0].partition(": ")
    parts = {line[:2]: _unfolded(line[2:]) for line in lines[1:]}
    known = set(parts) <= {"@ ", "- ", "+ "} and len(parts) == len(lines) - 1
    if not (file and colon and says.strip() and known and parts.get("- ") and "+ " in parts):
        raise MutantError("not a mutant:\n" + "\n".join(lines))
    if parts["- "] == parts["+ "]:
        raise MutantError(f"{name}: nothing changes")
    after = parts.get("@ ", "")
    return Mutant(id=name, area=area, file=file, says=says, old=parts["- "], new=parts["+ "], after=after)


def _unfolded(piece: str) -> str:
    """A piece that needs the line behind it to be unique says so by a backslash and n."""
    return piece.replace("\\n", "\n")
