"""This module has values of configured catalogs that are kept elsewhere: in the environment, or in a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TypeAlias

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, NotFoundError

__all__ = ["ConfiguredValue", "Reference", "value_of"]

_MOST_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Reference:
    """It says where the value of an option is; in TOML it is `{ env = "NAME" }` or `{ file = "/PATH" }`."""

    kind: str
    """It is `env` or `file`."""
    name: str
    """It is the variable, or the path of the file."""

    def __str__(self) -> str:
        return f"({self.kind} {self.name})"

    @classmethod
    def from_toml(cls, value: Mapping[str, object]) -> Reference:
        """Convert the table of a TOML file. Raises ValueError for any other table."""
        if len(value) == 1:
            ((kind, name),) = value.items()
            if kind in ("env", "file") and isinstance(name, str) and name:
                return cls(kind, name)
        raise ValueError('a value is a text, a number, true or false, { env = "NAME" } or { file = "PATH" }')


ConfiguredValue: TypeAlias = str | Reference


def value_of(option: str, value: ConfiguredValue, environ: Mapping[str, str]) -> str:
    """Return the value of an option; what it refers to is looked up now.

    Raises NotFoundError for a variable or file that does not exist, InvalidInputError for what is no text.
    """
    if isinstance(value, str):
        return value
    if value.kind == "env":
        if value.name not in environ:
            raise NotFoundError(
                f"catalog option {option}: the environment has no variable {value.name}; set it"
            )
        return environ[value.name]
    try:
        with open(os.path.expanduser(value.name), encoding="utf-8") as file:
            text = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as err:
        why = getattr(err, "strerror", None) or "it is no text in UTF-8"
        raise NotFoundError(f"catalog option {option}: the file {value.name} cannot be read: {why}") from err
    if len(text) > _MOST_BYTES:
        raise InvalidInputError(
            f"catalog option {option}: the file {value.name} has more than {_MOST_BYTES} bytes"
        )
    return text.rstrip("\r\n")
