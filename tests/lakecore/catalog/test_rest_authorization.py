"""How requests of a REST catalog are authorized: the signatures are those that Java's signers made
(tests/oracle/rest/DlfVectors.java).
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.rest.authorization.authorizer import RestRequest
from lakecore.catalog.rest.authorization.dlf import DlfPlace, keys_of_file
from lakecore.catalog.rest.authorization.dlf_signature import DlfKeys, sign_default, sign_openapi
from lakecore.catalog.rest.expiring_value import ExpiringValue
from lakecore.catalog.rest.options import RestOptions
from lakecore.errors import InvalidOptionError, LakeError, UnavailableError, UnsupportedError
from tests.support.fake_clock import FakeClock

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parent / "testdata" / "dlf_vectors.jsonl").read_text().splitlines()
]
NOW_MS = 1_704_067_205_123
DLF = {"uri": "http://cn-hangzhou-vpc.dlf.example", "token.provider": "dlf"}
GET = RestRequest("GET", "/v1/config")


@pytest.mark.parametrize("vector", VECTORS, ids=[str(number) for number in range(len(VECTORS))])
def test_signatures_are_those_of_java(vector: dict[str, Any]) -> None:
    method, path, body, token = vector["request"]
    request = RestRequest(method, path, vector["query"], body)
    keys, wanted = DlfKeys("key id", "sécret", token), vector["headers"]
    if vector["algorithm"] == "openapi":
        nonce = wanted["x-acs-signature-nonce"]
        assert sign_openapi(request, keys, "dlf.example:8080", NOW_MS, nonce) == wanted
    else:
        assert sign_default(request, keys, "cn-hangzhou", NOW_MS) == wanted


@pytest.mark.parametrize(
    ("uri", "region", "algorithm", "place"),
    [
        ("http://cn-hangzhou-vpc.dlf.aliyuncs.com", None, None, ("cn-hangzhou", "default")),
        ("https://dlfnext.cn-beijing.aliyuncs.com", None, None, ("cn-beijing", "openapi")),
        ("http://pre-ap-southeast-1.x/y", None, None, ("ap-southeast-1", "default")),
        ("http://host:8080", "eu-1", "openapi", ("eu-1", "openapi")),
    ],
)
def test_the_place_is_in_the_address(
    uri: str, region: str | None, algorithm: str | None, place: tuple[str, str]
) -> None:
    found = DlfPlace.of(uri, region, algorithm)
    assert (found.region, found.algorithm) == place


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({}, InvalidOptionError, "dlf.access-key-id or dlf.access-key-secret is missing"),
        ({"dlf.access-key-id": "a"}, InvalidOptionError, "dlf.access-key-secret is missing"),
        ({"dlf.token-loader": "local_file"}, InvalidOptionError, "dlf.token-path is missing"),
        ({"dlf.token-loader": "vault"}, UnsupportedError, "local_file and ecs"),
        ({"dlf.token-path": "/t", "uri": "http://host"}, InvalidOptionError, "dlf.region"),
        ({"dlf.token-path": "/t", "dlf.signing-algorithm": "x"}, InvalidOptionError, "default, openapi"),
    ],
)
def test_options_of_dlf_that_are_refused(more: dict[str, str], error: type[LakeError], words: str) -> None:
    with pytest.raises(error, match=words):
        RestOptions.from_options({**DLF, **more}, FakeClock())


def test_keys_of_a_file_are_read_again_before_they_expire(tmp_path: Path) -> None:
    path, clock = tmp_path / "keys.json", FakeClock(NOW_MS)
    raw = {"AccessKeyId": "a", "AccessKeySecret": "s3cret", "SecurityToken": "t0ken"}
    path.write_text(json.dumps({**raw, "Expiration": "2024-01-01T04:00:05Z"}))
    authorizer = RestOptions.from_options({**DLF, "dlf.token-path": str(path)}, clock).authorizer
    assert "Credential=a/" in authorizer.headers(GET)["Authorization"]
    assert authorizer.secrets() == ("s3cret", "t0ken")
    assert "s3cret" not in repr(authorizer)
    path.write_text(json.dumps({**raw, "AccessKeyId": "b", "Expiration": "2024-01-02T00:00:00Z"}))
    clock.sleep(2 * 3600)
    assert "Credential=a/" in authorizer.headers(GET)["Authorization"]
    clock.sleep(3600 + 1)
    assert "Credential=b/" in authorizer.headers(GET)["Authorization"]
    copy = pickle.loads(pickle.dumps(authorizer))
    assert "Credential=b/" in copy.headers(GET)["Authorization"]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"AccessKeyId": "a", "AccessKeySecret": "s", "Expiration": 1}']
)
def test_files_that_have_no_keys(tmp_path: Path, text: str) -> None:
    (tmp_path / "keys").write_text(text)
    with pytest.raises(UnavailableError, match="no keys of DLF"):
        keys_of_file(str(tmp_path / "keys"))()
    with pytest.raises(UnavailableError, match=r"option dlf\.token-path"):
        keys_of_file(str(tmp_path / "none"))()


def test_a_token_of_a_file_is_read_again(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", FakeClock()
    path.write_text("first\n")
    raw = {"uri": "http://host", "token.provider": "bear", "token-file": str(path)}
    authorizer = RestOptions.from_options(raw, clock).authorizer
    assert authorizer.headers(GET) == {"Authorization": "Bearer first"}
    path.write_text("second")
    assert authorizer.headers(GET) == {"Authorization": "Bearer first"}
    assert authorizer.refresh()
    assert authorizer.headers(GET) == {"Authorization": "Bearer second"}
    path.write_text("third")
    clock.sleep(61)
    assert authorizer.headers(GET) == {"Authorization": "Bearer third"}
    assert authorizer.secrets() == ("third",)
    path.write_text("")
    authorizer.refresh()
    with pytest.raises(InvalidOptionError, match="token-file"):
        authorizer.headers(GET)
    path.unlink()
    with pytest.raises(UnavailableError, match="token-file"):
        authorizer.headers(GET)


def test_a_value_that_never_expires_is_loaded_once() -> None:
    clock, loads = FakeClock(), []

    def load() -> tuple[int, None]:
        loads.append(1)
        return 1, None

    value = ExpiringValue(load, clock)
    assert (value.get(), value.get(), len(loads)) == (1, 1, 1)
    value.forget()
    assert (value.get(), len(loads)) == (1, 2)
    assert "1" not in repr(value)
