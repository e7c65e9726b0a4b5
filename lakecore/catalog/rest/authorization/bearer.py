"""This module authorizes requests by a bearer token, which is an option or the content of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from lakecore.catalog.rest.authorization.authorizer import RestRequest
from lakecore.catalog.rest.expiring_value import ExpiringValue
from lakecore.clock import Clock
from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError, UnavailableError, reason

__all__ = ["BearerToken", "FileToken", "checked_token"]

_MOST_BYTES = 1 << 16
_KEEP_MS = 60_000


@dataclass(frozen=True, slots=True)
class BearerToken:
    """This is a token that stays the same."""

    token: str = field(repr=False)

    def headers(self, request: RestRequest) -> Mapping[str, str]:
        """Return the header with the token."""
        return {"Authorization": f"Bearer {self.token}"}

    def secrets(self) -> tuple[str, ...]:
        """Return the token."""
        return (self.token,)

    def refresh(self) -> bool:
        """Return False: there is no other token."""
        return False


class FileToken:
    """This is a token in a file, which another program replaces before it expires. The file is read again
    after a minute, and when the server refuses the token.
    """

    def __init__(self, path: str, clock: Clock) -> None:
        self.path = path
        self._clock = clock
        self._token = ExpiringValue(self._load, clock)

    def __repr__(self) -> str:
        """Return the path of the file."""
        return f"FileToken({self.path!r})"

    def _load(self) -> tuple[str, int]:
        try:
            with open(self.path, encoding="utf-8") as file:
                text = file.read(_MOST_BYTES).strip()
        except (OSError, UnicodeDecodeError) as err:
            raise UnavailableError(
                f"the token in {self.path} cannot be read ({reason(err)}); check the option token-file"
            ) from err
        return checked_token("token-file", text), self._clock.now_ms() + 2 * _KEEP_MS

    def headers(self, request: RestRequest) -> Mapping[str, str]:
        """Return the header with the token. Raises UnavailableError when the file cannot be read."""
        return {"Authorization": f"Bearer {self._token.get()}"}

    def secrets(self) -> tuple[str, ...]:
        """Return the token that was read last."""
        return (self._token.last,) if self._token.last else ()

    def refresh(self) -> bool:
        """Read the file again for the next request."""
        self._token.forget()
        return True


def checked_token(key: str, text: str) -> str:
    """Return a token that fits into a header. Raises InvalidOptionError that does not show it."""
    if not text or not text.isascii() or not text.isprintable():
        raise InvalidOptionError(
            f"catalog option {key}: a token has printable ASCII characters, and at least one"
        )
    return text
