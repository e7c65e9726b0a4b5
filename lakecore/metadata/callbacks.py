"""This module has the options that name a Java class, or another format's metadata, to be called after
commits and tags. It is pure.

Nothing here can run them. No data of the table is lost by that, so the user is warned and nothing is
refused.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["callback_warnings"]

_CALLBACKS = {"commit.callbacks": "commits", "tag.callbacks": "tags"}
_ICEBERG = "metadata.iceberg.storage"


def callback_warnings(raw: Mapping[str, str]) -> tuple[str, ...]:
    """Return warnings about callbacks that are not invoked; it is empty for most tables."""
    warnings = [
        f"{key}={classes}: these callbacks are Java classes and are not invoked by lakecore; systems "
        f"that they inform of {what} do not learn of those made by lakecore"
        for key, what in _CALLBACKS.items()
        if (classes := raw.get(key, "").strip())
    ]
    storage = raw.get(_ICEBERG, "").strip()
    if storage not in ("", "disabled"):
        warnings.append(
            f"{_ICEBERG}={storage}: lakecore writes no Iceberg metadata; readers of Iceberg see these "
            "commits after another engine has committed"
        )
    return tuple(warnings)
