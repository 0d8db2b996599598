"""A server from start to graceful stop: the socket, signals, and messages to the operator."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from seglog.errors import ConfigError, SeglogError
from seglog.extras import require
from seglog.server.app import app_of, services_of
from seglog.server.beside import bound, listen
from seglog.server.http.handshakes import Handshakes
from seglog.server.http.protocol import bounded
from seglog.server.http.refusals import Refusals
from seglog.server.runtime.allocator import Allocator
from seglog.server.runtime.fencing import fence_all
from seglog.server.services import Services
from seglog.server.settings import Settings
from seglog.storage import Storage
from seglog.terminal.pandas_import import skip_pandas
from seglog.topic.broker import Broker
from seglog.topic.warm import warm_batches

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from seglog.archive.leading import Leading
    from seglog.errors import ArchiveFenced
    from seglog.server.beside import Beside
    from seglog.server.runtime.following import Following

ENDED_EARLY = "ASGI callable returned without completing response"
BACKLOG = 2048
TURN_SECONDS = 0.0005  # Python's own 5 ms doubles the time of `/ready` under attack
FILES_PER_CONNECTION = 2  # files the system must allow per connection, so that enough remain for the logs


def serve(
    root: str | os.PathLike[str] | Storage,
    settings: Settings,
    say: Callable[[str], None],
    leading: Leading | None = None,
    beside: Sequence[Beside] = (),
    *,
    stop: threading.Event | None = None,
    wrap: Callable[[ASGIApp, Services], ASGIApp] | None = None,
) -> None:
    """Serve the topics below `root` until SIGTERM, SIGINT or `stop`; return when everything is on disk.

    Args:
        root: A directory of topics: a path or a Storage.
        settings: Address, tokens and limits.
        say: Receives the address, what recovery found, and that the server stops.
        leading: A lease that this process holds; when it is lost, no more changes are accepted.
        beside: Other protocols on the same broker.
        stop: Stops the server when it is set, as SIGTERM does; the only way in a thread other than the main one.
        wrap: Returns the app that answers in place of the server's own, such as one that traces requests.

    Raises:
        LogLocked: If another server (or broker) has the root open.
        ConfigError: For tokens, certificates or an address that cannot be used.
    """
    skip_pandas()
    _allow_files()
    allocator = Allocator()
    allocator.tune()
    listener = _listener(settings)
    try:
        for one in beside:
            one.bind()
        warm_batches()
        following = _following(root, settings, say)
        services = _owned(root, settings, say, following)
        broker = services.broker
        if leading is not None:
            leading.when_lost(partial(_fence, broker, say))
        for event in broker.recovered:
            say(f"recovery: {event}")
        for name, error in broker.failed.items():
            say(f"topic {name} cannot be opened: {error}")
        with closing(services):
            server = _Server(_config(services, settings, wrap), services, say, allocator, beside, stop)
            services.cleaner.start()
            allocator.settle()
            listen(listener, BACKLOG, "--port")  # connections are accepted before the address is announced
            server.addresses = [*(one.listen() for one in beside), f"listening on {_address(listener, settings)}"]
            with _short_turns():
                server.run(sockets=[listener])
    finally:
        for one in beside:
            one.close()
        listener.close()
    say("stopped; everything acknowledged is on disk")


def _fence(broker: Broker, say: Callable[[str], None], why: ArchiveFenced) -> None:
    """Accept no more changes: another process is the leader."""
    say(f"accepts no more changes: {why}")
    try:
        fence_all(broker)
    except SeglogError as error:  # of some log; all others are fenced
        say(f"could not be fenced: {error}")


@contextmanager
def _short_turns() -> Iterator[None]:
    """Let the event loop wait for the interpreter at most half a millisecond for each thread that computes."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(TURN_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _allow_files() -> None:
    """Raise the limit of open files as far as allowed: a connection needs one, a partition three."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _files() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _following(
    root: str | os.PathLike[str] | Storage, settings: Settings, say: Callable[[str], None]
) -> Following | None:
    if settings.follow is None:
        return None
    from seglog.server.runtime.following import Following  # noqa: PLC0415 - only a server that follows needs a client

    following = Following(root, settings.follow, settings.follow_token, say)
    say(f"follows {settings.follow}, and only reads")
    return following


def _owned(
    root: str | os.PathLike[str] | Storage, settings: Settings, say: Callable[[str], None], following: Following | None
) -> Services:
    with ExitStack() as resources:
        if following is not None:
            resources.callback(following.close)
        archive = settings.archive if settings.archive_reads else None
        broker = Broker(root, mode="a" if following is None else "r", archive=archive)
        resources.callback(broker.close)
        services = services_of(broker, settings, say, following)
        resources.pop_all()
        return services


def _listener(settings: Settings) -> socket.socket:
    """Bind first, so that an address in use is reported before anything is opened, and port 0 is known."""
    return bound(settings.host, settings.port, "--port")


def _address(listener: socket.socket, settings: Settings) -> str:
    scheme = "https" if settings.certificate else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{listener.getsockname()[1]}"


def _config(
    services: Services, settings: Settings, wrap: Callable[[ASGIApp, Services], ASGIApp] | None
) -> uvicorn.Config:
    app = app_of(services)
    limits = settings.limits
    protocol = bounded(limits, Refusals(services.metrics), services.memory)
    protocol.most_connections = min(limits.connections, _files() // FILES_PER_CONNECTION)
    try:
        config = uvicorn.Config(
            app if wrap is None else wrap(app, services),
            http=protocol,
            ws="none",
            access_log=False,
            log_level=logging.WARNING,
            lifespan="off",
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=round(limits.keep_seconds),
            timeout_graceful_shutdown=round(limits.stop_seconds),
            ssl_certfile=settings.certificate,
            ssl_keyfile=settings.key,
        )
        logging.getLogger("uvicorn.error").addFilter(_is_news)
        config.load()
        if config.ssl is not None:
            # asyncio keeps a connection whose peer ends it before its answer
            require("TLS needs", "uvloop", extra="server")
            config.http_protocol_class = Handshakes(config.ssl, protocol)  # type: ignore[assignment] # only called
            config.ssl = None  # the listener accepts plain TCP
    except OSError as error:
        raise ConfigError(f"the certificate or its key cannot be used: {error.strerror or error}") from error
    return config


def _is_news(line: logging.LogRecord) -> bool:
    """Whether a uvicorn log line reports more than an ended request: one at the end of the stop time, or one whose
    client did not read the answer.
    """
    error = line.exc_info[1] if line.exc_info else None
    return not isinstance(error, asyncio.CancelledError) and not line.getMessage().startswith(ENDED_EARLY)


class _Server(uvicorn.Server):
    """uvicorn's server; its stop also ends waiting requests, and its ticks sync logs and return memory."""

    def __init__(
        self,
        config: uvicorn.Config,
        services: Services,
        say: Callable[[str], None],
        allocator: Allocator,
        beside: Sequence[Beside],
        stop: threading.Event | None,
    ) -> None:
        super().__init__(config)
        self.addresses: list[str] = []
        self._stop = stop
        self._beside = beside
        self._services = services
        self._say = say
        self._allocator = allocator
        self._released: asyncio.Task[None] | None = None
        self._signal = 0  # the first that came

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop: refuse new requests, finish running ones; a second Ctrl-C does not wait for them.

        Writes nothing, because the signal may have interrupted a message, which nothing can be written within.
        """
        self._signal = self._signal or sig
        super().handle_exit(sig, frame)
        self._captured_signals.clear()  # exit normally, not by the signal

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the other protocols too; then announce all addresses: from now on a signal stops the server."""
        await super().startup(sockets)
        made: object = self.config.http_protocol_class
        tls = made.context if isinstance(made, Handshakes) else None
        for one in self._beside:
            await one.start(self._services, tls)
        for address in self.addresses:
            self._say(address)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop the other protocols too, also if no process reads the messages any more."""
        self._services.end_waits()
        try:
            self._say(f"{self._cause()}stopping; finishing running requests first")
        finally:
            await asyncio.gather(*(one.stop(self._services.settings.limits.stop_seconds) for one in self._beside))
            await super().shutdown(sockets)

    def _cause(self) -> str:
        return f"{signal.Signals(self._signal).name}: " if self._signal else ""

    async def on_tick(self, counter: int) -> bool:
        """Check whether to stop; wake waiting requests, in the event loop."""
        if self._stop is not None and self._stop.is_set():
            self.should_exit = True
        ending = await super().on_tick(counter)
        self._services.appends.syncing.tick()
        self._services.snapshots.drop_old()
        if self._services.following is not None:
            self._services.following.start(self._services.waiting, asyncio.get_running_loop())
        if self._allocator.is_due() and (self._released is None or self._released.done()):
            self._released = asyncio.create_task(asyncio.to_thread(self._allocator.release))
        if ending:
            self._services.end_waits()
            made: object = self.config.http_protocol_class
            if isinstance(made, Handshakes):
                made.abort()
        return ending
