"""Fill a store with the demo's tables, once: `demo_lake.py ARCHIVE`.

It makes the bucket of LAKECORE_WAREHOUSE where that is missing, and uploads the tables of the archive where
nothing lies below the warehouse. An object `.lakecore-demo-incomplete` is there while it uploads, so a run
that was killed begins again, and a lake in which people work is never written to. The settings are
LAKECORE_WAREHOUSE (s3://bucket/prefix), LAKECORE_S3_ENDPOINT, LAKECORE_S3_ACCESS_KEY, LAKECORE_S3_SECRET_KEY.
A store that does not answer is tried for a minute.
"""

from __future__ import annotations

import os
import sys
import tarfile
import time
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

_INCOMPLETE = ".lakecore-demo-incomplete"
_TRIES = 30


def main(archive: str) -> int:
    """Return the exit code: 0 when the lake is there, 1 when the store did not answer."""
    address = urlsplit(os.environ["LAKECORE_WAREHOUSE"])
    if address.scheme != "s3" or not address.netloc or not address.path.strip("/"):
        print(f"LAKECORE_WAREHOUSE={address.geturl()} is not of the form s3://bucket/prefix", file=sys.stderr)
        return 1
    store, bucket, prefix = _store(), address.netloc, address.path.strip("/") + "/"
    for attempt in range(_TRIES):
        try:
            print(fill(store, bucket, prefix, archive))
            return 0
        except (BotoCoreError, ClientError) as err:
            problem = err
            if attempt + 1 < _TRIES:
                time.sleep(2)
    print(f"the store at {os.environ['LAKECORE_S3_ENDPOINT']} failed: {problem}", file=sys.stderr)
    return 1


def fill(store: Any, bucket: str, prefix: str, archive: str) -> str:
    """Make the bucket and upload the archive's `lake/…` below `prefix`, if need be; returns what was done."""
    names = {entry["Name"] for entry in store.list_buckets()["Buckets"]}
    if bucket not in names:
        store.create_bucket(Bucket=bucket)
    first = store.list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1).get("Contents", [])
    marker = prefix + _INCOMPLETE
    if first and first[0]["Key"] != marker:  # its name sorts before those of all databases
        return f"s3://{bucket}/{prefix} has objects already: nothing was uploaded"
    store.put_object(Bucket=bucket, Key=marker, Body=b"")
    count = 0
    with tarfile.open(archive) as tar:
        for member in tar:
            data = tar.extractfile(member) if member.isfile() else None
            if data is not None:
                key = prefix + member.name.removeprefix("./").removeprefix("lake/")
                store.put_object(Bucket=bucket, Key=key, Body=data.read())
                count += 1
    store.delete_object(Bucket=bucket, Key=marker)
    return f"uploaded {count} files of the demo's tables to s3://{bucket}/{prefix}"


def _store() -> Any:
    return boto3.client(
        "s3",
        endpoint_url=os.environ["LAKECORE_S3_ENDPOINT"],
        aws_access_key_id=os.environ["LAKECORE_S3_ACCESS_KEY"],
        aws_secret_access_key=os.environ["LAKECORE_S3_SECRET_KEY"],
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, connect_timeout=5, retries={"max_attempts": 1}),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
