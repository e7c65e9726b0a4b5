"""This module reads the files in which Hadoop and Hive keep their configuration (`core-site.xml`, …)."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping

from lakecore.errors import InvalidOptionError, reason

__all__ = ["check_values", "site_properties"]

_MOST_BYTES = 16 << 20


def site_properties(path: str) -> dict[str, str]:
    """Return the properties of such a file. Raises FileNotFoundError without the file, InvalidOptionError for
    one that is no configuration.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES)
        if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
            raise InvalidOptionError(
                f"{path}: it declares entities, which lakecore does not expand; write a file without them"
            )
        root = ElementTree.fromstring(data)
    except FileNotFoundError:
        raise
    except (OSError, ElementTree.ParseError) as err:
        raise InvalidOptionError(f"{path}: it is no configuration of Hive or Hadoop: {reason(err)}") from err
    return {
        (one.findtext("name") or "").strip(): (one.findtext("value") or "").strip()
        for one in root.iter("property")
    }


def check_values(path: str, properties: Mapping[str, str], keys: Iterable[str]) -> None:
    """Raise InvalidOptionError if one of these properties refers to another property or variable."""
    for key in keys:
        if "${" in properties.get(key, ""):
            raise InvalidOptionError(
                f"{path}: property {key}={properties[key]}: lakecore does not replace variables; write the "
                "value"
            )
