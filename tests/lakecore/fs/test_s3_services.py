"""COS and OBS through their S3 interfaces: addresses, keys, one writer, and listings that end too early."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from lakecore.errors import InvalidOptionError, UnsupportedError
from lakecore.fs.resolve import file_io_for, plain_path
from lakecore.fs.stores import object_store
from lakecore.fs.stores.cosn import connection_of as cosn_connection
from lakecore.fs.stores.obs import connection_of as obs_connection
from tests.support.oss_server import first_pages, obs_server, unconditional

COS = {
    "fs.cosn.bucket.region": "ap-beijing",
    "fs.cosn.userinfo.secretId": "me",
    "fs.cosn.userinfo.secretKey": "hunter2",
    "fs.cosn.userinfo.sessionToken": "hunter3",
}
OBS = {
    "fs.obs.endpoint": "obs.cn-north-4.myhuaweicloud.com",
    "fs.obs.access.key": "me",
    "fs.obs.secret.key": "hunter2",
    "fs.obs.session.token": "hunter3",
}
VPC = {"fs.cosn.bucket.endpoint_suffix": "cos.ap-beijing.tencentcos.cn"}
HERE = {"fs.cosn.bucket.endpoint_suffix": "http://127.0.0.1:1/"}


@pytest.mark.parametrize(
    ("options", "config"),
    [
        (COS, ("https://lake.cos.ap-beijing.myqcloud.com", "ap-beijing")),
        (COS | VPC, ("https://lake.cos.ap-beijing.tencentcos.cn", "ap-beijing")),
        (COS | HERE, ("http://127.0.0.1:1", "ap-beijing")),
        (OBS, ("https://lake.obs.cn-north-4.myhuaweicloud.com", "cn-north-4")),
        (OBS | {"fs.obs.endpoint": "http://127.0.0.1:1"}, ("http://127.0.0.1:1", "us-east-1")),
    ],
)
def test_the_bucket_is_in_the_host_of_the_service(options: dict[str, str], config: tuple[str, str]) -> None:
    connection = cosn_connection(options) if options.keys() & COS.keys() else obs_connection(options)
    client = connection.connect("lake")
    made: dict[str, Any] = dict(client.config)
    assert (made["endpoint"], made["region"]) == config
    assert str(made["virtual_hosted_style_request"]).lower() == str("lake." in config[0]).lower()
    assert made["token"] == "hunter3" if "token" in made else made["session_token"] == "hunter3"


def test_the_region_may_be_in_the_address_and_options_in_lower_case() -> None:
    address = {"fs.cosn.bucket.endpoint_suffix": "cos.ap-beijing.myqcloud.com"}
    without = {key: text for key, text in COS.items() if "region" not in key}
    assert cosn_connection(without | address) == cosn_connection(COS)
    assert cosn_connection({key.lower(): text for key, text in COS.items()}) == cosn_connection(COS)
    with pytest.raises(InvalidOptionError, match="region is missing"):
        cosn_connection(without)


@pytest.mark.parametrize(("root", "options"), [("cosn://b", COS), ("obs://b", OBS)])
def test_secrets_are_not_shown_and_nothing_is_written_without_the_word_of_the_user(
    root: str, options: dict[str, str]
) -> None:
    assert plain_path(f"{root}//x/") == f"{root}/x"
    storage = file_io_for(root, options)
    assert "hunter" not in repr(storage)
    assert pickle.loads(pickle.dumps(storage)) == storage
    scheme = root.partition(":")[0]
    with pytest.raises(UnsupportedError, match=rf"lakecore\.{scheme}\.single-writer=true"):
        storage.publish(f"{root}/x", b"1")
    for key in [key for key in options if not key.endswith(("oken", "region"))]:
        with pytest.raises(InvalidOptionError, match=rf"option {key} is missing"):
            file_io_for(root, {one: text for one, text in options.items() if one != key})


@pytest.mark.parametrize("pages", [True, False])
def test_a_service_that_lists_the_first_page_only_is_noticed(
    monkeypatch: pytest.MonkeyPatch, pages: bool
) -> None:
    """OBS is said to have no `ListObjectsV2` for some buckets: then files beyond the first page would be missing."""
    monkeypatch.setattr(object_store, "_PAGE", 10)
    with obs_server(unconditional if pages else first_pages) as server:
        storage, root = file_io_for(server.root, server.options), f"{server.root}/pages-{pages}"
        for number in range(21):
            storage.overwrite(f"{root}/{number:02}{'/x' if number % 3 == 0 else ''}", b"")
            if pages or number + 1 < 10:
                assert len(storage.list(root)) == number + 1
                continue
            with pytest.raises(UnsupportedError, match="no more than the first page"):
                storage.list(root)
