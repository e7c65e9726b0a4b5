"""This module decides which tags have expired. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lakecore.data_class import dataclass

__all__ = ["AgedTag", "expired_tags"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgedTag:
    """This is a tag with its age. `created_ms` and `retained_ms` are recorded in the tag, None where they
    are not. `written_ms` is the time of its file.
    """

    name: str
    created_ms: int | None
    retained_ms: int | None
    written_ms: int


def expired_tags(
    tags: Sequence[AgedTag], now_ms: int, older_than_ms: int | None, keep_newest: int = 0
) -> tuple[str, ...]:
    """Return the names of the tags to expire. Spec: a tag ends with its own time to live; `older_than_ms`
    ends all that were made before.

    A tag that does not say when it was made is taken to be as old as its file, and only `older_than_ms` ends
    it. The `keep_newest` tags that were made last stay in any case.
    """
    by_age = sorted(tags, key=lambda tag: (_created_ms(tag), tag.name), reverse=True)
    youngest = {tag.name for tag in by_age[:keep_newest]}
    return tuple(
        tag.name for tag in tags if tag.name not in youngest and _expired(tag, now_ms, older_than_ms)
    )


def _created_ms(tag: AgedTag) -> int:
    return tag.written_ms if tag.created_ms is None else tag.created_ms


def _expired(tag: AgedTag, now_ms: int, older_than_ms: int | None) -> bool:
    timed = tag.created_ms is not None and tag.retained_ms is not None
    created = tag.created_ms if timed and tag.created_ms is not None else tag.written_ms
    if older_than_ms is not None and created < older_than_ms:
        return True
    return timed and tag.retained_ms is not None and now_ms > created + tag.retained_ms
