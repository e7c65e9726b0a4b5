"""This module connects to HDFS, with the option names of Paimon and Hadoop.

The client is the library hdfs-native, which needs no Java. It obeys few of Hadoop's properties; any other
option is refused. Files of Hadoop's configuration have many others, which are for Java.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, InvalidOptionError, UnavailableError
from lakecore.fs.stores.hadoop_site import check_values, site_properties
from lakecore.fs.stores.hdfs_errors import hdfs_errors
from lakecore.fs.stores.hdfs_files import HdfsFileIO
from lakecore.fs.stores.store import Store
from lakecore.options import Option, parse_size

__all__ = ["HDFS_STORE", "HdfsConnection"]

_EXAMPLE = "hdfs://namenode:8020/path or hdfs://nameservice/path"
_AUTHORITY = re.compile(r"[A-Za-z0-9._-]+(:\d{1,5})?")
_PREFIX = "hadoop."
_DEFAULT_PORT = 8020


def _parse_count(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,3}", text.strip()):
        raise ValueError("it must be a whole number from 1 on")
    return int(text)


def _parse_umask(text: str) -> int:
    if not re.fullmatch("0?[0-7]{3}", text.strip()):
        raise ValueError("it must be octal digits such as 022 or 027")
    return int(text, 8)


CONF_DIR: Option[str | None] = Option(
    "hadoop-conf-dir", str.strip, None, "The directory of core-site.xml and hdfs-site.xml."
)
PRINCIPAL: Option[str | None] = Option(
    "security.kerberos.login.principal", str.strip, None, "Principal of Kerberos; default the ticket cache."
)
KEYTAB: Option[str | None] = Option(
    "security.kerberos.login.keytab",
    str.strip,
    None,
    "Keytab of that principal, at the same path everywhere.",
)
REPLICATION: Option[int | None] = Option(
    "dfs.replication",
    _parse_count,
    None,
    "Copies of new files; default the name node's.",
    ("hadoop.dfs.replication",),
)
BLOCK_SIZE: Option[int | None] = Option(
    "dfs.blocksize",
    parse_size,
    None,
    "Block size of new files; default the name node's.",
    ("hadoop.dfs.blocksize",),
)
UMASK = Option(
    "fs.permissions.umask-mode",
    _parse_umask,
    0o022,
    "Permissions that new files and directories do not get.",
    ("hadoop.fs.permissions.umask-mode",),
)
_OWN = (REPLICATION, BLOCK_SIZE, UMASK)

_REPLACE = "dfs.client.block.write.replace-datanode-on-failure."
_ATTEMPTS = "dfs.client.failover.max.attempts"
_ATTEMPTS_OF_ONE = "4"
"""A single name node is tried again 4 times, within about 15 s (Java tries for 10 s); a nameservice as in
Hadoop.
"""
_AUTHENTICATION = "hadoop.security.authentication"
_PROPERTIES = frozenset(
    {
        _ATTEMPTS,
        "dfs.client.failover.sleep.base.millis",
        "dfs.client.failover.sleep.max.millis",
        "dfs.client.socket-timeout",
        "dfs.client.use.datanode.hostname",
        "dfs.data.transfer.protection",
        f"{_REPLACE}enable",
        f"{_REPLACE}policy",
        f"{_REPLACE}best-effort",
        _AUTHENTICATION,
    }
)
_OF_NAMESERVICES = (
    "dfs.ha.namenodes.",
    "dfs.namenode.rpc-address.",
    "dfs.client.failover.resolve-needed.",
    "dfs.client.failover.resolver.useFQDN.",
    "dfs.client.failover.random.order.",
    "dfs.client.failover.proxy.provider.",
)
_SITES = ("core-site.xml", "hdfs-site.xml")


@dataclass(frozen=True)
class HdfsConnection:
    """It says how to reach name nodes. The files of Hadoop's configuration were read when the catalog was
    opened, so executors do not need them.
    """

    properties: tuple[tuple[str, str], ...] = ()
    """These properties are for the library."""
    replication: int | None = None
    block_size: int | None = None
    umask: int = 0o022
    principal: str | None = None
    keytab: str | None = None

    @classmethod
    def from_options(cls, raw: Mapping[str, str]) -> HdfsConnection:
        """Read catalog options and the files of Hadoop's configuration, over which options win.

        Raises InvalidOptionError for a directory without these files, for a file that is no configuration,
        and for a keytab without a principal.
        """
        prefixed, bare = (_chosen_properties(raw, prefixed=one) for one in (True, False))
        properties = {**_site(raw), **prefixed, **bare}
        principal, keytab = PRINCIPAL.read(raw), KEYTAB.read(raw)
        if keytab and not principal:
            raise InvalidOptionError(f"option {PRINCIPAL.key} is missing; {KEYTAB.key}={keytab} needs it")
        if principal and properties.get(_AUTHENTICATION, "simple").strip().lower() != "kerberos":
            raise InvalidOptionError(
                f"option {PRINCIPAL.key}={principal}: it would have no effect; set "
                f"{_AUTHENTICATION}=kerberos, or name the directory of core-site.xml in hadoop-conf-dir"
            )
        return cls(
            tuple(sorted((key, value) for key, value in properties.items() if _is_for_library(key))),
            REPLICATION.read(properties),
            BLOCK_SIZE.read(properties),
            UMASK.read(properties),
            principal,
            keytab,
        )

    def connect(self, authority: str) -> Any:
        """Return the client of a name node or nameservice; it connects on first use. Raises UnavailableError
        when hdfs-native is not installed.
        """
        try:
            from hdfs_native import Client
        except ImportError as err:
            raise UnavailableError(
                f"cannot open hdfs://{authority}: {err}; install it with pip install 'lakecore[hdfs]'"
            ) from err
        properties = dict(self.properties)
        if f"dfs.ha.namenodes.{authority}" not in properties:
            properties.setdefault(_ATTEMPTS, _ATTEMPTS_OF_ONE)
            authority = authority if ":" in authority else f"{authority}:{_DEFAULT_PORT}"
        kerberos = {"kerberos_principal": self.principal, "kerberos_keytab": self.keytab}
        with hdfs_errors("open", f"hdfs://{authority}"):
            return Client(f"hdfs://{authority}", properties, **kerberos)

    def write_options(self, *, overwrite: bool = False) -> Any:
        """Return the library's options of a new file; missing directories are made."""
        from hdfs_native import WriteOptions

        return WriteOptions(self.block_size, self.replication, 0o666 & ~self.umask, overwrite, True)

    @property
    def directory_mode(self) -> int:
        """Return the permissions of new directories."""
        return 0o777 & ~self.umask


def _site(raw: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that lakecore obeys, of the files in $HADOOP_HOME, $HADOOP_CONF_DIR and
    `hadoop-conf-dir`; the later ones win.
    """
    home, environment, chosen = (
        os.environ.get("HADOOP_HOME"),
        os.environ.get("HADOOP_CONF_DIR"),
        CONF_DIR.read(raw),
    )
    directories = [f"{home}/conf", f"{home}/etc/hadoop"] if home else []
    directories += [directory for directory in (environment, chosen) if directory]
    properties: dict[str, str] = {}
    for directory in directories:
        paths = [path for name in _SITES if os.path.exists(path := os.path.join(directory, name))]
        if not paths and directory == chosen:
            raise InvalidOptionError(
                f"option {CONF_DIR.key}={chosen}: it has neither {' nor '.join(_SITES)}; name the directory "
                "that has them"
            )
        for path in paths:
            values = {key: value for key, value in site_properties(path).items() if value and _obeys(key)}
            check_values(path, values, values)
            properties |= values
    return properties


def _chosen_properties(raw: Mapping[str, str], *, prefixed: bool) -> dict[str, str]:
    """Return the properties that options name, either with Paimon's prefix `hadoop.` or without it."""
    return {
        _property(key): value
        for key, value in raw.items()
        if _accepts(key) and (_property(key) != key) is prefixed
    }


def _property(key: str) -> str:
    """Return the name of the property that an option sets. Options of Spark and of the environment are in
    lower case.
    """
    bare = key.removeprefix(_PREFIX) if key != _AUTHENTICATION else key
    for prefix in _OF_NAMESERVICES:
        if bare.lower().startswith(prefix.lower()):
            return prefix + bare[len(prefix) :]
    return bare


def _is_for_library(key: str) -> bool:
    return key in _PROPERTIES or key.startswith(_OF_NAMESERVICES)


def _obeys(key: str) -> bool:
    return _is_for_library(key) or any(key == option.key for option in _OWN)


def _accepts(key: str) -> bool:
    return _obeys(_property(key))


def _plain(scheme: str, rest: str) -> str:
    authority, *parts = rest.removeprefix("//").split("/") if rest.startswith("//") else ("",)
    if not _AUTHORITY.fullmatch(authority):
        raise InvalidInputError(f"{scheme}:{rest} names no name node or nameservice; write {_EXAMPLE}")
    return "/".join([f"hdfs://{authority}", *(part for part in parts if part)])


HDFS_STORE = Store(
    schemes=("hdfs",),
    example=_EXAMPLE,
    plain=_plain,
    open=lambda options: HdfsFileIO(HdfsConnection.from_options(options)),
    options=(CONF_DIR, PRINCIPAL, KEYTAB, *_OWN),
    accepts=_accepts,
    is_object_store=False,
    is_replaceable=False,
)
