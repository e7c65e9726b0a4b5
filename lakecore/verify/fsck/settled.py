"""A check of a table that others may write to, compact and expire meanwhile: only what stays wrong is wrong.

A check takes time, and what it lists first may be gone when it looks for its files. Findings that come from
the presence of files, and from hints, are therefore looked at again, until they are gone or stay the same
while the table rests. What is inside of a file never changes: such findings are true at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from lakecore.verify.fsck.findings import Finding, FindingKind, FsckReport

__all__ = ["settled", "without_orphans"]

_BY_PRESENCE = frozenset({
    FindingKind.HINT, FindingKind.ORPHAN, FindingKind.SNAPSHOT, FindingKind.SCHEMA, FindingKind.MANIFEST,
    FindingKind.DATA_FILE, FindingKind.INDEX_FILE, FindingKind.STATISTICS,
})  # fmt: skip
_FIRST_PAUSE, _MOST_PAUSE = 0.25, 8.0
_HINT_SECONDS = 1.5
"""A writer that has made a snapshot needs a moment until the hints name it."""
_LOOKS = 8

_Key = tuple[FindingKind, str, str]


def settled(check: Callable[[bool], FsckReport], sleep: Callable[[float], None]) -> FsckReport:
    """Return the report of a check, without the findings that had disappeared when they were checked again.

    `check`: one check of the table; with False it opens no data files. A table without findings is checked
    once. Otherwise at least one more check follows, of metadata only; on a table that does not rest up to
    eight, within half a minute of waiting. Then a finding that was there each time is kept.
    """
    report = check(True)
    first = {_key(one): one for one in _by_presence(report.findings)}
    before = frozenset(first)
    pause, waited = _FIRST_PAUSE, 0.0
    for _ in range(_LOOKS):
        if not first:
            break
        sleep(pause)
        waited, pause = waited + pause, min(2 * pause, _MOST_PAUSE)
        again = check(False)
        after = {_key(one): one for one in _by_presence(again.findings)}
        rests = not again.moved and after.keys() == before
        first = {key: after[key] for key in first if key in after}
        before = frozenset(after)
        hints = any(one.kind is FindingKind.HINT for one in first.values())
        if rests and (waited >= _HINT_SECONDS or not hints):
            break
    certain = [one for one in report.findings if one.kind not in _BY_PRESENCE]
    findings = sorted([*certain, *first.values()], key=lambda one: (one.kind.value, one.path, one.problem))
    return replace(report, findings=tuple(findings))


def without_orphans(report: FsckReport) -> FsckReport:
    """Return the report without single orphans, which are counted only."""
    rest = tuple(one for one in report.findings if one.kind is not FindingKind.ORPHAN)
    return replace(
        report, findings=rest, young_orphans=report.young_orphans + len(report.findings) - len(rest)
    )


def _by_presence(findings: Iterable[Finding]) -> Iterable[Finding]:
    return (one for one in findings if one.kind in _BY_PRESENCE)


def _key(finding: Finding) -> _Key:
    """Return what makes two findings the same: a hint that has other content by now has moved; who needs a
    lost file changes with every snapshot.
    """
    says = finding.problem if finding.kind is FindingKind.HINT else ""
    return finding.kind, finding.path, says
