"""The settings of the listener for Kafka's protocol."""

from __future__ import annotations

from dataclasses import dataclass

from seglog.errors import ConfigError

MAX_PORT = 65535
IDLE_CONNECTION_SECONDS = 600.0
SESSION_MS = range(100, 30 * 60 * 1000 + 1)
"""The sessions that members of groups may have with the classic protocol."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KafkaSettings:
    """Where clients connect, and what they get.

    Args:
        host: The address to listen on.
        port: The port; 0: any free one.
        advertised: The host and port that clients are given; default: those to which they connected.
        topic_partitions: Partitions of a topic that is created because a client asks for it; 0: none is created.
    """

    host: str = "127.0.0.1"
    port: int = 9092
    advertised: tuple[str, int] | None = None
    topic_partitions: int = 1

    def __post_init__(self) -> None:
        """Raise ConfigError for values out of range."""
        if self.topic_partitions < 0:
            raise ConfigError(f"topic_partitions is {self.topic_partitions}; it must be 0 or more")


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of "HOST:PORT"; an IPv6 address is in brackets. Raises ConfigError."""
    host, found, port = text.rpartition(":")
    if not found or not host or not port.isdecimal() or int(port) > MAX_PORT:
        raise ConfigError(f"{text!r} is not an address; give HOST:PORT, such as 127.0.0.1:9092")
    return host.removeprefix("[").removesuffix("]"), int(port)
