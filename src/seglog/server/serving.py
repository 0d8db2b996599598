"""A server from its start to its graceful stop: the socket, signals, and what is said to the operator."""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import socket
from collections.abc import Callable
from contextlib import closing
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from seglog.errors import ConfigError
from seglog.server.app import app_of, services_of
from seglog.server.protocol import bounded
from seglog.server.refusals import Refusals
from seglog.topic.broker import Broker
from seglog.topic.warm import warm_batches

if TYPE_CHECKING:
    import os

    from seglog.server.services import Services
    from seglog.server.settings import Settings

BACKLOG = 2048


def serve(root: str | os.PathLike[str], settings: Settings, say: Callable[[str], None]) -> None:
    """Serve the topics below `root` until SIGTERM or SIGINT; returns once everything is on disk.

    say: told where the server listens, what recovery met, and that it stops. LogLocked where another server (or broker)
    has the root; ConfigError for tokens, certificates or an address that cannot be used.
    """
    _allow_files()
    listener = _listener(settings)
    try:
        warm_batches()
        broker = Broker(root)
        for event in broker.recovered:
            say(f"recovery: {event}")
        services = _owned(broker, settings)
        for name, error in broker.failed.items():
            say(f"topic {name} cannot be opened: {error}")
        with closing(services):
            server = _Server(_config(services, settings), services, say)
            services.cleaner.start()
            listener.listen(BACKLOG)  # from here on nobody is refused, as is said in the next line
            say(f"listening on {_address(listener, settings)}")
            server.run(sockets=[listener])
    finally:
        listener.close()
    say("stopped; everything acknowledged is on disk")


def _allow_files() -> None:
    """Take all open files that the system lets us have: a connection takes one, a partition three."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _owned(broker: Broker, settings: Settings) -> Services:
    try:
        return services_of(broker, settings)
    except BaseException:
        broker.close()
        raise


def _listener(settings: Settings) -> socket.socket:
    """Bind first, so that an address in use is told before anything is opened, and port 0 is known."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}; --port takes another"
        ) from error
    return listener


def _address(listener: socket.socket, settings: Settings) -> str:
    scheme = "https" if settings.certificate else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{listener.getsockname()[1]}"


def _config(services: Services, settings: Settings) -> uvicorn.Config:
    limits = settings.limits
    try:
        config = uvicorn.Config(
            app_of(services),
            http=bounded(limits, Refusals(services.metrics)),
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
    except OSError as error:
        raise ConfigError(f"the certificate and its key cannot be used: {error.strerror or error}") from error
    return config


def _is_news(line: logging.LogRecord) -> bool:
    """Whether a line of uvicorn's log says more than that a request was given up, as at the end of the stop time."""
    error = line.exc_info[1] if line.exc_info else None
    return not isinstance(error, asyncio.CancelledError)


class _Server(uvicorn.Server):
    """uvicorn's server, whose stop also ends what waits for records."""

    def __init__(self, config: uvicorn.Config, services: Services, say: Callable[[str], None]) -> None:
        super().__init__(config)
        self._services = services
        self._say = say

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop: no new requests; those under way finish; a second Ctrl-C does not wait for them."""
        begins = not self.should_exit
        super().handle_exit(sig, frame)
        self._captured_signals.clear()  # an orderly end, not one by the signal
        if begins:  # last: nobody may listen any more
            self._say(f"{signal.Signals(sig).name}: stopping; requests under way are finished first")

    async def on_tick(self, counter: int) -> bool:
        """Look whether it is time to stop; end those who wait, in the event loop."""
        ending = await super().on_tick(counter)
        if ending:
            self._services.waiting.stop()
        return ending
