"""Credentials, regions and addresses of S3 that the environment and the profiles of AWS have."""

from __future__ import annotations

import json
import os
import stat
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakecore.errors import InvalidInputError, UnavailableError
from lakecore.fs.file_io import FileIO
from lakecore.fs.resolve import file_io_for
from lakecore.fs.stores.profiles import configured_endpoint, configured_region, profile_credentials
from lakecore.fs.stores.s3 import S3Options
from tests.support.s3_server import S3Server, s3_server

WHERE = "s3://lake"


class Seen:
    """An application before moto that notes who signs requests to S3."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self.application, self.signers = application, list[tuple[str, str]]()
        SEEN.append(self)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        key = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].partition("/")[0]
        if environ["PATH_INFO"].startswith("/lake/"):
            self.signers.append((key, environ.get("HTTP_X_AMZ_SECURITY_TOKEN", "")))
        return self.application(environ, start_response)


SEEN: list[Seen] = []


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server(Seen) as started:
        yield started


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without files of AWS, and an environment without its variables."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    (tmp_path / ".aws").mkdir()
    return tmp_path / ".aws"


def signer(server: S3Server) -> tuple[str, str]:
    """Who signs a request to the server, when the options have no keys."""
    options = {key: text for key, text in server.options.items() if "-key" not in key}
    storage = file_io_for(WHERE, options)
    storage.stat(f"{WHERE}/profiles/nothing")
    first = SEEN[-1].signers[-1]
    storage.make_directory(f"{WHERE}/profiles/made")
    storage.remove_directory(f"{WHERE}/profiles/made")
    assert set(SEEN[-1].signers[-3:]) == {first}
    return first


def program(home: Path, text: str) -> str:
    """A program for `credential_process` that counts its runs."""
    file = home / "credentials.sh"
    file.write_text(f"#!/bin/sh\necho x >> {home}/runs\n{text}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


def looking_often(storage: FileIO) -> None:
    """obstore asks for credentials that end soon again when a tenth of a second has passed."""
    for _ in range(1000):
        storage.stat(f"{WHERE}/profiles/nothing")


def ending(minutes: float) -> str:
    end = datetime.now(UTC) + timedelta(minutes=minutes)
    answer = {
        "Version": 1,
        "AccessKeyId": "of-a-program",
        "SecretAccessKey": "hunter2",
        "SessionToken": "t",
        "Expiration": end.isoformat(),
    }
    return f"echo '{json.dumps(answer)}'"


def test_keys_of_the_environment(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    assert signer(server) == ("of-the-environment", "")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    assert signer(server) == ("of-the-environment", "token")


def test_keys_of_a_profile(server: S3Server, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "credentials").write_text(
        "[default]\naws_access_key_id=of-default\naws_secret_access_key=x\n"
        "[other]\naws_access_key_id=of-other\naws_secret_access_key=x\naws_session_token=token\n"
    )
    assert signer(server) == ("of-default", "")
    monkeypatch.setenv("AWS_PROFILE", "other")
    assert signer(server) == ("of-other", "token")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    options = {key: text for key, text in server.options.items() if "-key" not in key}
    file_io_for(WHERE, options).stat(f"{WHERE}/profiles/nothing")
    assert SEEN[-1].signers[-1] == ("", "")


def test_a_role_of_a_profile(server: S3Server, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.options["s3.endpoint"])
    (home / "config").write_text(
        "[default]\nregion=us-east-1\naws_access_key_id=x\naws_secret_access_key=x\n"
        "[profile role]\nsource_profile=default\nrole_arn=arn:aws:iam::123456789012:role/lake\nregion=us-east-1\n"
    )
    monkeypatch.setenv("AWS_PROFILE", "role")
    key, token = signer(server)
    assert key.startswith("ASIA")
    assert token


def test_a_program_is_asked_again_before_its_credentials_end(home: Path) -> None:
    """botocore renews what ends in ten minutes or earlier, and obstore asks in time."""
    (home / "config").write_text(f"[default]\ncredential_process={program(home, ending(60))}\n")
    lasting = profile_credentials(WHERE)
    assert lasting is not None
    answers = [lasting(), lasting()]
    assert {one["access_key_id"] for one in answers} == {"of-a-program"}
    left = answers[0]["expires_at"] - datetime.now(UTC)
    assert timedelta(minutes=9) < left <= timedelta(minutes=10)
    assert (home / "runs").read_text() == "x\n"
    (home / "config").write_text(f"[default]\ncredential_process={program(home, ending(8))}\n")
    short = profile_credentials(WHERE)
    assert short is not None
    answers = [short(), short()]
    assert answers[1]["expires_at"] - datetime.now(UTC) < timedelta(minutes=8)
    assert len((home / "runs").read_text()) > 4
    assert "hunter2" not in repr(short)


def test_a_program_that_fails_is_named_without_its_words(server: S3Server, home: Path) -> None:
    (home / "config").write_text(
        f"[default]\ncredential_process={program(home, 'echo hunter2 >&2; exit 1')}\n"
    )
    options = {key: text for key, text in server.options.items() if "-key" not in key}
    storage = file_io_for(WHERE, options)
    with pytest.raises(UnavailableError, match=r"CredentialRetrievalError; check AWS_PROFILE") as caught:
        storage.read(f"{WHERE}/profiles/nothing")
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
    program(home, ending(4))
    assert storage.stat(f"{WHERE}/profiles/nothing") is None
    program(home, "echo hunter2 >&2; exit 1")
    with pytest.raises(UnavailableError, match=r"CredentialRetrievalError.*check the credentials") as caught:
        looking_often(storage)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(UnavailableError, match="CredentialRetrievalError"):  # it is certain: nothing was sent
        storage.publish(f"{WHERE}/profiles/snapshot-1", b"")


def test_a_profile_that_is_missing_or_empty(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert profile_credentials(WHERE) is None
    monkeypatch.setenv(
        "AWS_CONFIG_FILE", "/" + "x" * 300
    )  # it cannot be looked at, as the home of another user
    assert (profile_credentials(WHERE), configured_region()) == (None, None)
    monkeypatch.delenv("AWS_CONFIG_FILE")
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(UnavailableError, match=r"nobody.*AWS_PROFILE"):
        profile_credentials(WHERE)
    monkeypatch.delenv("AWS_PROFILE")
    (home / "config").write_text("[default]\nregion=eu-west-1\n")
    with pytest.raises(UnavailableError, match=r"s3\.access-key"):
        profile_credentials(WHERE)


def test_without_botocore_a_profile_is_refused_and_the_rest_works(
    server: S3Server, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("botocore.exceptions", "botocore.session"):
        monkeypatch.setitem(sys.modules, name, None)
    (home / "config").write_text("[default]\nregion=eu-west-1\n")
    assert profile_credentials(WHERE) is None
    (home / "config").write_text("[default]\nregion=eu-west-1\n[profile p]\nsso_session=x\n")
    assert profile_credentials(WHERE) is None
    monkeypatch.setenv("AWS_PROFILE", "p")
    with pytest.raises(UnavailableError, match=r"lakecore\[aws\]"):
        profile_credentials(WHERE)
    monkeypatch.delenv("AWS_PROFILE")
    (home / "config").write_text("[default]\nsso_session=x\n")
    with pytest.raises(UnavailableError, match=r"lakecore\[aws\]"):
        profile_credentials(WHERE)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    assert signer(server) == ("of-the-environment", "")


def test_region_and_address(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (configured_region(), configured_endpoint()) == (None, None)
    (home / "config").write_text(
        "[default]\nregion=eu-west-1\nendpoint_url=http://own:1\n[profile p]\nregion=eu-west-2\n"
    )
    assert (configured_region(), configured_endpoint()) == ("eu-west-1", "http://own:1")
    monkeypatch.setenv("AWS_PROFILE", "p")
    assert (configured_region(), configured_endpoint()) == ("eu-west-2", None)
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://own:2")
    assert (configured_region(), configured_endpoint()) == ("eu-west-3", "http://own:2")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-4")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://own:3")
    assert (configured_region(), configured_endpoint()) == ("eu-west-4", "http://own:3")
    keys = {"s3.access-key": "x", "s3.secret-key": "x", "s3.path.style.access": "true"}
    made: dict[str, Any] = dict(S3Options.from_options(keys).connect("lake").config)
    assert (made["endpoint"], made["region"]) == ("http://own:3", "eu-west-4")
    monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    assert configured_endpoint() is None


@pytest.mark.parametrize("name", ["AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT"])
def test_addresses_that_are_not_derived_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "true")
    with pytest.raises(InvalidInputError, match=rf"{name}.*s3\.endpoint"):
        file_io_for(WHERE, {"s3.region": "eu-west-1"}).stat(f"{WHERE}/profiles/nothing")


def test_a_file_that_cannot_be_read_is_named(home: Path) -> None:
    (home / "config").write_text("secret = hunter2\n")
    with pytest.raises(InvalidInputError, match=r"\.aws/config") as caught:
        configured_region()
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
