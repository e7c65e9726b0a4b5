"""What is special about S3: addresses, conditional writes and their doubtful answers, directories, copies, uploads."""

from __future__ import annotations

import http.server
import os
import pickle
import re
import ssl
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import boto3
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from lakecore.errors import (
    AlreadyExistsError,
    CommitUncertainError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lakecore.fs.file_io import FileIO
from lakecore.fs.publish import publish_resolved
from lakecore.fs.resolve import file_io_for
from lakecore.fs.stores import bucket_region
from lakecore.fs.stores import s3 as s3_module
from lakecore.fs.stores.s3 import S3FileIO, S3Options
from tests.support.certificates import Authority
from tests.support.fake_clock import FakeClock
from tests.support.s3_server import S3Server, s3_server

SECRET = "hunter2"
KEYS = {"s3.access-key": "id", "s3.secret-key": SECRET}
CERTIFICATES = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as started:
        yield started


@pytest.fixture
def storage(server: S3Server) -> S3FileIO:
    return S3FileIO(S3Options.from_options(server.options))


@pytest.fixture
def client(server: S3Server) -> Any:
    """A client that is not ours, to look at objects and uploads."""
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    return boto3.client("s3", endpoint_url=server.options["s3.endpoint"], region_name="us-east-1", **keys)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_") or name in CERTIFICATES]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nowhere")


SERVICES = {
    "oss": (
        {"fs.oss.endpoint": "ADDRESS", "fs.oss.accessKeyId": "id", "fs.oss.accessKeySecret": SECRET},
        "fs.oss.endpoint",
    ),
    "cosn": (
        {
            "fs.cosn.bucket.endpoint_suffix": "ADDRESS",
            "fs.cosn.bucket.region": "ap-x",
            "fs.cosn.userinfo.secretId": "id",
            "fs.cosn.userinfo.secretKey": SECRET,
        },
        "fs.cosn.bucket.region",
    ),
    "obs": (
        {"fs.obs.endpoint": "ADDRESS", "fs.obs.access.key": "id", "fs.obs.secret.key": SECRET},
        "fs.obs.endpoint",
    ),
}


@contextmanager
def answering(
    status: int, code: str, tls: ssl.SSLContext | None = None
) -> Iterator[tuple[dict[str, str], list[Mapping[str, str]]]]:
    """Options of a service that answers so to each request, and the headers of the requests."""
    seen: list[Mapping[str, str]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            seen.append({"path": self.path, **{key.lower(): text for key, text in self.headers.items()}})
            body = f"<Error><Code>{code}</Code><AWSAccessKeyId>{SECRET}</AWSAccessKeyId></Error>".encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as started:
        if tls is not None:
            started.socket = tls.wrap_socket(started.socket, server_side=True)
        threading.Thread(target=started.serve_forever, daemon=True).start()
        yield {**KEYS, "s3.endpoint": f"http{'s' if tls else ''}://127.0.0.1:{started.server_port}"}, seen
        started.shutdown()


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (412, "PreconditionFailed", False),
        (500, "InternalError", CommitUncertainError),
        (503, "SlowDown", CommitUncertainError),
        (429, "", CommitUncertainError),
        (409, "ConditionalRequestConflict", CommitUncertainError),
        (501, "NotImplemented", UnsupportedError),
        (403, "AccessDenied", UnavailableError),
        (404, "NoSuchBucket", NotFoundError),
        (301, "PermanentRedirect", CommitUncertainError),
    ],
)
def test_answers_to_a_conditional_put(
    status: int, code: str, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecore.fs.stores.client.RETRIES", {"max_retries": 0})
    with answering(status, code) as (options, seen):
        storage = file_io_for("s3://b", options)
        if expected is False:
            assert not storage.publish("s3://b/snapshot-1", b"1")
        else:
            with pytest.raises(expected, match="snapshot-1") as caught:
                storage.publish("s3://b/snapshot-1", b"1")
            assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert [one["if-none-match"] for one in seen] == ["*"]


def test_busy_services_are_asked_again() -> None:
    with answering(503, "SlowDown") as (options, seen):
        storage = file_io_for("s3://b", options)
        with pytest.raises(UnavailableError, match=r"503.*SlowDown"):
            storage.read("s3://b/x")
    assert len(seen) == 6


@pytest.mark.parametrize(
    ("status", "code", "remedy"),
    [
        (301, "PermanentRedirect", r"region.*s3\.region"),
        (400, "AuthorizationHeaderMalformed", r"400.*s3\.region"),
        (403, "InvalidAccessKeyId", "403.*InvalidAccessKeyId.*credentials and the rights"),
        (400, "KeyTooLongError", "400.*KeyTooLongError"),
    ],
)
def test_an_error_names_place_and_remedy(status: int, code: str, remedy: str) -> None:
    with answering(status, code) as (options, _):
        storage = file_io_for("s3://b", options)
        with pytest.raises(UnavailableError, match=f"cannot read s3://b/a/x: .*{remedy}") as caught:
            storage.read("s3://b/a/x")
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("service", SERVICES)
def test_the_region_is_that_of_the_service(service: str) -> None:
    """A hint names the option of the store that was asked, and never one of another store."""
    options, option = SERVICES[service]
    with answering(400, "AuthorizationHeaderMalformed") as (started, _):
        address = started["s3.endpoint"]
        filled = {key: value.replace("ADDRESS", address) for key, value in options.items()}
        with pytest.raises(UnavailableError, match="check the region") as caught:
            file_io_for(f"{service}://b", filled).read(f"{service}://b/x")
    assert str(caught.value).endswith(f"({option})")


@pytest.mark.parametrize(
    ("key", "shown"),
    [("a//b", "a//"), ("a/./b", "a/./"), ("a/c/../b", "a/c/../"), ("a/x//", "a/x//"), ("a/\x01b", "a/")],
)
def test_an_object_that_cannot_be_listed_is_named(
    key: str, shown: str, server: S3Server, storage: S3FileIO, client: Any
) -> None:
    """Only the directory that it lies in is affected: its neighbours are listed, and it is still a directory."""
    top = f"odd-{key.encode().hex()}"
    for one in (key, "a/c/ok", "a/x/ok", "b/ok"):
        client.put_object(Bucket=server.bucket, Key=f"{top}/{one}", Body=b"x")
    root = f"{server.root}/{top}"
    within = f"{root}/a/c" if "c/.." in key else f"{root}/a/x" if "x//" in key else f"{root}/a"
    with pytest.raises(UnsupportedError, match="rename or delete that object") as caught:
        storage.list(within)
    assert f"{top}/{shown}" in str(caught.value)
    status = storage.stat(within)
    assert status is not None
    assert status.is_dir
    assert [one.name for one in storage.list(root)] == ["a", "b"]
    assert [one.name for one in storage.list(f"{root}/b")] == ["ok"]


def test_a_name_with_a_leading_slash_is_no_child_of_the_bucket(server: S3Server, client: Any) -> None:
    """It would be a directory that has itself below it."""
    client.create_bucket(Bucket="slash")
    for key in ("/lead", "ok"):
        client.put_object(Bucket="slash", Key=key, Body=b"x")
    storage = file_io_for("s3://slash", server.options)
    assert [one.path for one in storage.list("s3://slash")] == ["s3://slash/ok"]


def test_a_name_that_is_taken_at_the_second_request_is_not_taken_for_certain(
    server: S3Server, storage: S3FileIO
) -> None:
    with server.losing_answers("uncertain/x", 1), pytest.raises(CommitUncertainError, match="412"):
        storage.publish(f"{server.root}/uncertain/x", b"ours")


@pytest.mark.parametrize("times", [1, 4])
def test_a_lost_answer_is_settled_by_reading_back(times: int, server: S3Server, storage: S3FileIO) -> None:
    path = f"{server.root}/settled-{times}/snapshot-1"
    with server.losing_answers("snapshot-1", times):
        assert publish_resolved(storage, path, b"ours", FakeClock())
    with server.losing_answers("snapshot-1", times):
        assert not publish_resolved(storage, path, b"theirs", FakeClock())
    assert storage.read(path) == b"ours"


def test_missing_bucket_and_wrong_address(server: S3Server) -> None:
    storage = file_io_for("s3://nowhere", server.options)
    for look in (storage.read, storage.list, storage.stat, storage.open_input):
        with pytest.raises(NotFoundError, match=r"(bucket|object) does not exist"):
            look("s3://nowhere/x")
    with pytest.raises(NotFoundError, match="bucket does not exist"):
        storage.publish("s3://nowhere/x", b"1")
    with pytest.raises(InvalidInputError, match="s3://"):
        storage.read("/local")
    with pytest.raises(InvalidInputError, match=r"s3\.endpoint"):
        file_io_for("s3://b", {"s3.endpoint": "http://"}).read("s3://b/x")


def test_secrets_are_not_shown() -> None:
    storage = file_io_for("s3://b", {**KEYS, "s3.session-token": "hunter3"})
    assert "hunter" not in repr(storage)
    copy = pickle.loads(pickle.dumps(storage))
    assert (type(copy), copy) == (S3FileIO, storage)


def test_half_a_credential_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"s3\.secret-key"):
        S3Options.from_options({"s3.access-key": "id"})


@pytest.mark.parametrize("token", [None, "hunter3"])
def test_the_environment_changes_nothing_that_options_say(
    token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token of the environment does not belong to keys of options, and addresses there are of other services."""
    for name in ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name, text in (
        ("AWS_ACCESS_KEY_ID", "other"),
        ("AWS_SECRET_ACCESS_KEY", "other"),
        ("AWS_SESSION_TOKEN", "of-the-other"),
        ("AWS_REGION", "eu-west-1"),
        ("AWS_CONDITIONAL_PUT", "disabled"),
        ("AWS_SKIP_SIGNATURE", "true"),
        ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "true"),
    ):
        monkeypatch.setenv(name, text)
    with answering(412, "PreconditionFailed") as (options, seen):
        own = {**options, "s3.region": "eu-central-1", **({"s3.session-token": token} if token else {})}
        assert not file_io_for("s3://b", own).publish("s3://b/x", b"1")
        oss = {
            "fs.oss.endpoint": options["s3.endpoint"],
            "fs.oss.accessKeyId": "id",
            "fs.oss.accessKeySecret": SECRET,
        }
        with pytest.raises(UnavailableError):
            file_io_for("oss://b", oss).read("oss://b/x")
    assert [one["path"] for one in seen] == ["/b/x", "/b/x"]
    assert "Credential=id/" in seen[0]["authorization"]
    assert "/eu-central-1/s3/" in seen[0]["authorization"]
    assert seen[0].get("x-amz-security-token") == token
    assert "Credential=id/" in seen[1]["authorization"]
    assert "x-amz-security-token" not in seen[1]


@pytest.mark.parametrize(
    ("options", "bucket", "address", "region"),
    [
        ({"s3.region": "eu-west-1"}, "lake", "https://lake.s3.eu-west-1.amazonaws.com", "eu-west-1"),
        ({"s3.region": "eu-west-1"}, "my.lake", "https://s3.eu-west-1.amazonaws.com", "eu-west-1"),
        ({"s3.region": "cn-north-1"}, "lake", "https://lake.s3.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        (
            {"s3.endpoint": "https://s3.amazonaws.com/", "s3.endpoint.region": "eu-west-1"},
            "lake",
            "https://lake.s3.eu-west-1.amazonaws.com",
            "eu-west-1",
        ),
        (
            {"s3.endpoint": "s3.eu-west-1.amazonaws.com", "s3.path.style.access": "true"},
            "lake",
            "https://s3.eu-west-1.amazonaws.com",
            "eu-west-1",
        ),
        (
            {"s3.endpoint": "https://s3-fips.us-gov-west-1.amazonaws.com"},
            "lake",
            "https://lake.s3-fips.us-gov-west-1.amazonaws.com",
            "us-gov-west-1",
        ),
        ({"s3.endpoint": "http://minio:9000"}, "lake", "http://lake.minio:9000", "us-east-1"),
        (
            {"s3.endpoint": "http://minio:9000/", "s3.path-style-access": "true"},
            "lake",
            "http://minio:9000",
            "us-east-1",
        ),
        ({"s3.endpoint": "http://10.0.0.1:9000"}, "lake", "http://10.0.0.1:9000", "us-east-1"),
    ],
)
def test_addresses(options: dict[str, str], bucket: str, address: str, region: str) -> None:
    made: dict[str, Any] = dict(S3Options.from_options({**KEYS, **options}).connect(bucket).config)
    assert (made["endpoint"], made["region"]) == (address, region)
    assert str(made["virtual_hosted_style_request"]).lower() == str(f"/{bucket}." in address).lower()


class RegionOfBuckets(http.server.BaseHTTPRequestHandler):
    """It answers as s3.amazonaws.com does: the region is in a header, whatever the status."""

    buckets: ClassVar[dict[str, tuple[int, str]]] = {
        "/open": (200, "us-east-2"),
        "/private": (403, "eu-north-1"),
        "/elsewhere": (301, "ap-south-1"),
        "/a.b": (200, "eu-west-1"),
        "/forged": (200, "x.evil.example/"),
        "/silent": (200, ""),
    }

    def do_HEAD(self) -> None:
        status, region = self.buckets.get(self.path, (404, ""))
        self.send_response(status)
        if region:
            self.send_header("x-amz-bucket-region", region)
        if status == 301:
            self.send_header("Location", "/open")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_aws_says_the_region_where_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), RegionOfBuckets)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(bucket_region, "_AWS", f"http://127.0.0.1:{server.server_port}")
    try:
        for bucket in ("open", "private", "elsewhere"):
            region = RegionOfBuckets.buckets[f"/{bucket}"][1]
            made: dict[str, Any] = dict(S3Options.from_options(KEYS).connect(bucket).config)
            assert made["endpoint"] == f"https://{bucket}.s3.{region}.amazonaws.com"
        assert bucket_region.region_of("a.b") == "eu-west-1"
        for bucket, cause in (
            ("none", "no bucket has this name"),
            ("silent", "names none"),
            ("forged", "names none"),
        ):
            with pytest.raises(
                UnavailableError, match=rf"region of s3://{bucket}: .*{cause}; set s3\.region"
            ):
                S3Options.from_options(KEYS).connect(bucket)
    finally:
        server.shutdown()
        server.server_close()
    with pytest.raises(UnavailableError, match=r"region of s3://open: .*refused.*; set s3\.region"):
        S3Options.from_options(KEYS).connect("open")


@pytest.mark.parametrize("name", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", ""])
def test_certificates_of_an_authority_of_the_user(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecore.fs.stores.client.RETRIES", {"max_retries": 0})
    authority = Authority.of("user")
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(
        Authority.of("other").certificate.public_bytes(Encoding.PEM)
        + authority.certificate.public_bytes(Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.sign(tmp_path, "127.0.0.1"))
    if name:
        monkeypatch.setenv(name, str(bundle))
    expected = "404.*|does not exist" if name else "error sending request"
    with (
        answering(404, "NoSuchKey", context) as (options, _),
        pytest.raises((NotFoundError, UnavailableError), match=expected),
    ):
        file_io_for("s3://b", options).read("s3://b/x")
    monkeypatch.setenv("AWS_CA_BUNDLE", "/nowhere.pem")
    with pytest.raises(InvalidInputError, match=r"/nowhere\.pem.*AWS_CA_BUNDLE"):
        file_io_for("s3://b", options).read("s3://b/x")


def keys_of(client: Any, server: S3Server, prefix: str) -> list[str]:
    page = client.list_objects_v2(Bucket=server.bucket, Prefix=prefix)
    return [one["Key"] for one in page.get("Contents", ())]


@pytest.mark.parametrize("style", ["path", "host"])
def test_directories_are_those_of_java(
    style: str, server: S3Server, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hadoop's S3A puts `<path>/`, too; one that another program made is removed."""
    root = f"{server.root}/{style}"
    if style == "host":  # the name of the bucket is in that of the host, which is this machine
        port = server.options["s3.endpoint"].rpartition(":")[2]
        monkeypatch.setattr(
            s3_module, "_bucket_address", lambda *_: (f"http://127.0.0.1:{port}/{server.bucket}", True)
        )
    storage = file_io_for(root, server.options)
    for name in ("dt=a%2Fb c", "ü+&?#'~", "$x"):
        assert storage.make_directory(f"{root}/{name}")
        assert not storage.make_directory(f"{root}/{name}")
        assert keys_of(client, server, style) == [f"{style}/{name}/"]
        assert [(one.name, one.is_dir) for one in storage.list(root)] == [(name, True)]
        storage.remove_directory(f"{root}/{name}")
        assert keys_of(client, server, style) == []
        client.put_object(Bucket=server.bucket, Key=f"{style}/{name}/", Body=b"")
        assert storage.list(f"{root}/{name}") == []
        storage.remove_directory(f"{root}/{name}")
        assert keys_of(client, server, style) == []


@pytest.mark.parametrize("name", ["", "/a/..", "/a/../..", "/a//b", "/."])
def test_no_other_place_is_taken_for_a_directory(name: str, server: S3Server, client: Any) -> None:
    """Addresses of requests are normalized: `DELETE /lake/a/../` would delete the bucket, if it is empty."""
    storage = file_io_for(server.root, server.options)
    storage.overwrite(f"{server.root}/stays", b"")
    with pytest.raises(InvalidInputError):
        storage.remove_directory(f"{server.root}{name}")
    assert client.head_bucket(Bucket=server.bucket)["ResponseMetadata"]["HTTPStatusCode"] == 200


def test_an_upload_that_ends_early_leaves_no_parts(server: S3Server, storage: S3FileIO, client: Any) -> None:
    path = f"{server.root}/uploads/x"
    out = storage.open_output(path)
    for _ in range(3):
        out.write(b"x" * (11 << 20))
    assert len(client.list_multipart_uploads(Bucket=server.bucket)["Uploads"]) == 1
    out.abort()
    out.abort()
    assert "Uploads" not in client.list_multipart_uploads(Bucket=server.bucket)
    assert storage.stat(path) is None


def upload(storage: FileIO, path: str) -> None:
    with storage.open_output(path) as out:
        for _ in range(4):
            out.write(b"x" * (9 << 20))


UPLOADS = {
    "begin": r"POST uploads",
    "part": r"PUT .*partNumber=2",
    "last part": r"PUT .*partNumber=4",
    "end": r"POST .*uploadId=",
}


@pytest.mark.parametrize("step", UPLOADS)
def test_an_upload_that_fails_leaves_neither_object_nor_parts(step: str) -> None:
    refused = re.compile(UPLOADS[step])

    def front(application: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
        def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            if not refused.match(f"{environ['REQUEST_METHOD']} {environ['QUERY_STRING']}"):
                return application(environ, start_response)
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response("403 Forbidden", [("Content-Length", "0")])
            return [b""]

        return answer

    with s3_server(front) as server:
        path, storage = f"{server.root}/x", file_io_for(server.root, server.options)
        with pytest.raises(UnavailableError, match=r"cannot write .*403"):
            upload(storage, path)
        assert storage.stat(path) is None
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        client = boto3.client(
            "s3", endpoint_url=server.options["s3.endpoint"], region_name="us-east-1", **keys
        )
        assert "Uploads" not in client.list_multipart_uploads(Bucket=server.bucket)


def test_large_objects_are_uploaded_in_parts(server: S3Server, storage: S3FileIO) -> None:
    path = f"{server.root}/large/x"
    data = bytes(range(256)) * (25 << 12)
    with storage.open_output(path) as out:
        for start in range(0, len(data), 3_000_001):
            out.write(data[start : start + 3_000_001])
    assert storage.read(path) == data


@pytest.mark.parametrize("kind", ["larger than a copy", "another bucket"])
def test_what_the_service_does_not_copy_at_once_is_copied_in_pieces(
    kind: str, server: S3Server, storage: S3FileIO, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_module, "_LARGEST_COPY", 10 if kind == "larger than a copy" else 1000)
    monkeypatch.setattr(s3_module, "_PIECE", 7)
    client.create_bucket(Bucket="second")
    name = kind.replace(" ", "-")
    path, root = f"{server.root}/{name}/a", server.root if kind == "larger than a copy" else "s3://second"
    target, data = f"{root}/{name}/b", bytes(range(30))
    storage.write_new(path, data)
    storage.move(path, target)
    assert (storage.stat(path), storage.read(target)) == (None, data)
    storage.write_new(path, b"other")
    with pytest.raises(AlreadyExistsError):
        storage.move(path, target)
    assert storage.read(target) == data
