"""How much of a lake is worked on at once. Imports nothing: commands know it before they begin."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`tables`: worked on at once. `plan_bytes`: of the plans that are held for them, as estimated from
    their manifests before they are read; a plan that is larger by itself is held alone.
    """

    tables: int = 8
    plan_bytes: int = 512 << 20
