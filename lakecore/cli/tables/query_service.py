"""This module has `query-service`, which answers lookups in a table over the network until it is stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakecore.cli.engine import Engine, key_values
from lakecore.cli.session import Session, session_of
from lakecore.cli.stop_signals import stopped_by_signals
from lakecore.cli.tables.lookup import CACHE_DIRECTORY_HELP
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, UnsupportedError, reason

if TYPE_CHECKING:
    from lakecore.service.addresses import Address
    from lakecore.service.server_options import ServerOptions
    from lakecore.service.servers_options import ServersOptions

__all__ = ["query_service"]

TOKEN_VARIABLE = "LAKECORE_QUERY_SERVICE_TOKEN"


@dataclass(frozen=True)
class ListenOptions:
    """These options say where the service listens, and who may ask."""

    host: Annotated[str, typer.Option(help="Listen on this address of the machine.")] = "127.0.0.1"
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Listen at this port; 0 chooses a free one.")
    ] = 0
    advertised_host: Annotated[
        str | None, typer.Option(help="Clients find the service under this name; needed for host 0.0.0.0.")
    ] = None
    health_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve /health and /metrics over HTTP at this port.")
    ] = None
    token_file: Annotated[
        Path | None,
        typer.Option(
            help=f"Read the token that clients must send from this file; by default ${TOKEN_VARIABLE} has it."
        ),
    ] = None
    max_connections: Annotated[int, typer.Option(min=1, help="More connections are refused.")] = 256


@dataclass(frozen=True)
class RefreshOptions:
    """These options say how the service follows the table."""

    interval: Annotated[float, typer.Option(min=0.01, help="Wait so many seconds between two refreshes.")] = (
        10.0
    )
    replace: Annotated[
        bool, typer.Option("--replace", help="Take the place of a service that still runs.")
    ] = False
    option: Annotated[
        list[str] | None, typer.Option(help="Set an option of the table for this run: key=value.")
    ] = None
    cache_directory: Annotated[list[str] | None, typer.Option(help=CACHE_DIRECTORY_HELP)] = None


@dataclass(frozen=True)
class ServerPlaces:
    """These options say on which machines the servers run."""

    engine: Annotated[
        Engine,
        typer.Option(help="Run the servers in processes of this machine (local), or in tasks of Spark."),
    ] = Engine.LOCAL
    servers: Annotated[
        int, typer.Option(min=1, help="Start so many servers, which share the buckets of the table.")
    ] = 1
    master: Annotated[str | None, typer.Option(help="Use this Spark master; by default local[*].")] = None
    conf: Annotated[list[str] | None, typer.Option(help="Set a property of Spark: key=value.")] = None


def query_service(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="DB.TABLE")],
    listening: ListenOptions,
    following: RefreshOptions,
    places: ServerPlaces,
) -> None:
    """Answer lookups of the newest rows of a table over the network, until SIGTERM or Ctrl-C.

    The protocol is that of Paimon's query service: clients of Java and of lakecore find the address in the
    table. The service answers what was asked before it ends, and takes its address out of the table.
    """
    from lakecore.service.server_options import ServerOptions  # help needs no network

    server = ServerOptions(
        host=listening.host,
        port=listening.port,
        token=_token(listening.token_file),
        max_connections=listening.max_connections,
        cache_directories=tuple(following.cache_directory or ()),
    )
    session = session_of(context)
    if places.engine is Engine.SPARK:
        _check_spark(listening, following)
        _serve_on_spark(session, table, server, listening, following, places)
    else:
        _check_local(places)
        serve = _serve if places.servers == 1 else _serve_in_processes
        serve(session, table, server, listening, following, places)
    session.note(f"the query service of {table} has ended")


def _serve(
    session: Session,
    table: str,
    server: ServerOptions,
    listening: ListenOptions,
    following: RefreshOptions,
    places: ServerPlaces,
) -> None:
    """Run one server in this process."""
    from lakecore.service.query_service import QueryService, ServiceOptions

    options = ServiceOptions(
        server=server,
        advertised_host=listening.advertised_host,
        interval=following.interval,
        health_port=listening.health_port,
        replace=following.replace,
    )
    own_options = key_values(following.option or [], "--option")
    with (
        stopped_by_signals() as stop,
        QueryService(lambda: session.catalog.load_table(table, own_options), options) as service,
    ):
        address, health = service.start(), service.health_address
        _tell(session, table, [address], health)
        service.run(stop)


def _serve_in_processes(
    session: Session,
    table: str,
    server: ServerOptions,
    listening: ListenOptions,
    following: RefreshOptions,
    places: ServerPlaces,
) -> None:
    """Run several servers, each in a process of its own."""
    from lakecore.service.local_servers import serve_in_processes

    options = _servers_options(server, listening, following, places)
    load = partial(session.catalog.load_table, table, key_values(following.option or [], "--option"))
    with stopped_by_signals() as stop:
        serve_in_processes(load, options, stop, partial(_tell, session, table), listening.advertised_host)


def _servers_options(
    server: ServerOptions, listening: ListenOptions, following: RefreshOptions, places: ServerPlaces
) -> ServersOptions:
    from lakecore.service.addresses import Address
    from lakecore.service.servers_options import ServersOptions

    port = listening.health_port
    return ServersOptions(
        servers=places.servers,
        server=server,
        interval=following.interval,
        replace=following.replace,
        health=None if port is None else Address(server.host, port),
    )


def _tell(session: Session, table: str, addresses: Sequence[Address], health: Address | None) -> None:
    """Say where the service is."""
    texts = [str(address) for address in addresses]
    if session.json:
        values = {"table": table, "address": texts[0], "addresses": texts}
        typer.echo(json.dumps(values | {"health": None if health is None else str(health)}))
    else:
        more = "" if health is None else f"; health at http://{health}/health"
        session.note(f"table {table} is served at {', '.join(texts)}{more}")


def _serve_on_spark(
    session: Session,
    table: str,
    server: ServerOptions,
    listening: ListenOptions,
    following: RefreshOptions,
    places: ServerPlaces,
) -> None:
    from lakecore.spark.query_service import serve_on_spark
    from lakecore.spark.session import spark_context

    options = _servers_options(server, listening, following, places)
    spark, owned = spark_context(places.master, key_values(places.conf or [], "--conf"))
    try:
        with stopped_by_signals() as stop:  # after Spark, which handles SIGINT itself
            session.note(f"{places.servers} servers on Spark are going to serve table {table}")
            serve_on_spark(
                spark,
                session.catalog,
                table,
                options,
                stop,
                lambda health: session.note(f"health at http://{health}/health"),
            )
    finally:
        if owned:
            spark.stop()


def _check_spark(listening: ListenOptions, following: RefreshOptions) -> None:
    """Raise UnsupportedError for options that servers on Spark do not obey."""
    ignored = {
        "--port": listening.port != 0,
        "--advertised-host": listening.advertised_host is not None,
        "--option": bool(following.option),
    }
    for name, used in ignored.items():
        if used:
            raise UnsupportedError(f"{name}: servers on Spark do not obey it; leave it out")


def _check_local(places: ServerPlaces) -> None:
    if places.master or places.conf:
        raise InvalidInputError("--master and --conf are for --engine spark; leave them out")


def _token(path: Path | None) -> str | None:
    if path is None:
        return os.environ.get(TOKEN_VARIABLE)
    try:
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as err:
        raise InvalidInputError(f"--token-file {path}: it cannot be read ({reason(err)})") from err
    if not text:
        raise InvalidInputError(f"--token-file {path}: it is empty")
    return text
