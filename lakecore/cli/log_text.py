"""Lines of the log on standard error: no name from a record can move the cursor or forge a line."""

from __future__ import annotations

import logging

from lakecore.errors import mask_secrets, printable

__all__ = ["PrintableFormatter"]


class PrintableFormatter(logging.Formatter):
    """A formatter that writes `LEVEL:logger:message` with the message on one line; tracebacks follow on their
    own lines.
    """

    def __init__(self) -> None:
        super().__init__(logging.BASIC_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """Return the line of a record."""
        record.message = printable(mask_secrets(record.message))
        return super().formatMessage(record)
