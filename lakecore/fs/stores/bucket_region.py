"""This module asks AWS for the region of a bucket. Every answer to a request for a bucket names it, also one
that refuses the request, so that no key is needed.
"""

from __future__ import annotations

import re
import ssl
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote

from lakecore.errors import UnavailableError, reason
from lakecore.fs.stores.profiles import configured_certificates

__all__ = ["region_of"]

_AWS = "https://s3.amazonaws.com"
_PATIENCE_S = 10.0
_REGION_NAME = re.compile(r"[a-z0-9-]{1,40}")


def region_of(bucket: str) -> str:
    """Return the region of a bucket. Raises UnavailableError when AWS does not answer, or names none."""
    request = urllib.request.Request(f"{_AWS}/{quote(bucket)}", method="HEAD")
    certificates = configured_certificates()
    try:
        trust = ssl.create_default_context(cadata=certificates.decode() if certificates else None)
        opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=trust), _NoRedirect())
        with opener.open(request, timeout=_PATIENCE_S) as answer:
            headers = answer.headers
    except urllib.error.HTTPError as err:
        headers = err.headers
        cause = "no bucket has this name" if err.code == 404 else reason(err)
    except (OSError, ValueError) as err:
        headers, cause = {}, reason(err)
    else:
        cause = "the answer names none"
    region = headers.get("x-amz-bucket-region") or ""
    if not _REGION_NAME.fullmatch(region):
        raise UnavailableError(
            f"cannot find the region of s3://{bucket}: {cause}; set s3.region, or s3.endpoint for "
            "another service than AWS"
        )
    return region


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The answer of AWS that sends a client to another region names that region."""

    def redirect_request(self, *_: Any) -> None:
        return None
