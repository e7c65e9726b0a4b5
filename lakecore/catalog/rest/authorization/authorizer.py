"""This module has the protocol of what authorizes requests, and the value that it authorizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol

from lakecore.data_class import dataclass

__all__ = ["Authorizer", "RestRequest"]


@dataclass(frozen=True, slots=True)
class RestRequest:
    """This is a request without its headers."""

    method: str
    path: str
    """It is the path below the address of the server, encoded: `/v1/…`."""
    query: Mapping[str, str] = field(default_factory=dict)
    """These are the parameters, not encoded."""
    body: str = ""
    """It is the JSON text, empty without a body."""


class Authorizer(Protocol):
    """It adds the headers by which the server knows the caller. It can be pickled, with its secrets, and its
    repr shows none.
    """

    def headers(self, request: RestRequest) -> Mapping[str, str]:
        """Return headers for one request. Raises UnavailableError when credentials cannot be had."""

    def secrets(self) -> tuple[str, ...]:
        """Return the texts that no message may show."""

    def refresh(self) -> bool:
        """Forget credentials that the server refused; False if there can be no others."""
