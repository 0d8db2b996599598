"""The settings of a server: address, tokens and limits. Frozen values."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from seglog.errors import ConfigError

MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits on what a server holds and waits for. Sizes in bytes, times in seconds; each must be positive.

    Args:
        body_bytes: Of one record's value.
        batch_bytes: Of one batch, which is held in memory, encoded and as records.
        batch_records: Records of one batch.
        record_headers: Headers of one record in a batch.
        head_bytes: Of one record's key and headers, which no answer cuts.
        partitions: Of one topic.
        memory_bytes: Of all that the server holds for its callers (`seglog.server.runtime.memory`); bodies that do not
            fit go to files.
        spool_bytes: Of those files.
        connections: Open at a time.
        waiting: Appends that wait for one partition.
        calls: Reads, batches and commands that wait for a thread, of each kind.
        tails: Live tails at a time.
        groups: Consumer groups that one token has created, but for those that it owns.
        read_bytes: Of one answer, but for a record that is longer.
        shown_bytes: Of a value in JSON; a longer one is cut.
        head_seconds: For a request's head.
        idle_seconds: Without a byte of a body, or of an answer that is not read.
        body_rate: Bytes per second that a body must bring on average.
        wait_seconds: Of a long poll, and of an append for copies.
        snapshot_seconds: That the view of a range is kept for its next answer, see `seglog.server.runtime.snapshots`.
        snapshot_bytes: Of deleted files that such views keep.
        keep_seconds: Of a connection between two requests.
        stop_seconds: For requests under way when the server stops.
        sync_seconds: After which appended records are synced without a request for it.

    Raises:
        ConfigError: If a limit is not positive.
    """

    body_bytes: int = 1024 * MIB
    batch_bytes: int = 64 * MIB
    batch_records: int = 1_000_000
    record_headers: int = 1000
    head_bytes: int = MIB
    partitions: int = 1000
    memory_bytes: int = 384 * MIB
    spool_bytes: int = 8192 * MIB
    connections: int = 1000
    waiting: int = 4096
    calls: int = 256
    tails: int = 256
    groups: int = 1000
    read_bytes: int = 64 * MIB
    shown_bytes: int = MIB
    head_seconds: float = 10.0
    idle_seconds: float = 20.0
    body_rate: float = 1024.0
    wait_seconds: float = 60.0
    snapshot_seconds: float = 60.0
    snapshot_bytes: int = 8192 * MIB
    keep_seconds: float = 75.0
    stop_seconds: float = 30.0
    sync_seconds: float = 1.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be greater than 0")


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """How a server is reached, and what it does with its topics.

    Args:
        host: The address to listen on. One that other machines can reach needs `tokens` or `anonymous`.
        port: The port; 0: any free one.
        tokens: A token file, see `seglog token`.
        anonymous: Accept other machines without tokens: all may do everything.
        certificate: The certificate chain for TLS, PEM.
        key: Its private key, PEM.
        spool: An existing directory for bodies that do not fit in memory; default: the system's temporary directory.
            The files have no names, and nothing else in it is touched.
        archive: The URL of an archive to which everything is copied, see `seglog.archive`.
        archive_seconds: How often it is copied.
        archive_reads: Read from the archive what retention has deleted.
        table: A warehouse in which every topic is kept as a table, see `seglog.table`.
        table_seconds: How often records are added to the tables.
        table_all: Take active segments into the tables, too.
        table_latest: Keep a table of the newest records of each topic, too.
        table_schema: "infer", or a file with the schema of values: let their fields be typed columns, too.
        table_catalog: Properties of a pyiceberg catalog for the tables. None: the file catalog.db in the warehouse.
        follow: The URL of a server that this one copies and only reads.
        follow_token: The token for that server.
        limits: What the server holds and waits for.

    Raises:
        ConfigError: If other machines can reach the address without tokens and `anonymous` is not given, or if the
            port, the TLS files or the spool are invalid, or a catalog is given for no tables.
    """

    host: str = "127.0.0.1"
    port: int = 3000
    tokens: Path | None = None
    anonymous: bool = False
    certificate: Path | None = None
    key: Path | None = None
    spool: Path | None = None
    archive: str | None = None
    archive_seconds: float = 1.0
    archive_reads: bool = False
    table: str | None = None
    table_seconds: float = 60.0
    table_all: bool = False
    table_latest: bool = False
    table_schema: str | None = None
    table_catalog: dict[str, str] | None = field(default=None, repr=False)  # a property may be a password
    follow: str | None = None
    follow_token: str | None = None
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"port is {self.port}; it must be between 0 and 65535")
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("TLS needs both a certificate and its key; give --tls-cert and --tls-key")
        if self.spool is not None and not self.spool.is_dir():
            raise ConfigError(f"{self.spool} is not a directory; the spool needs an existing one")
        if self.table_catalog is not None and self.table is None:
            raise ConfigError("there are properties of a catalog, and no tables; give --table WAREHOUSE, too")
        if not self.is_local and self.tokens is None and not self.anonymous:
            raise ConfigError(
                f"other machines can reach {self.host}, and there are no tokens: anyone could read, write and delete; "
                "give --tokens FILE (see `seglog token`), or --anonymous to allow it"
            )

    @property
    def is_local(self) -> bool:
        """Whether only programs on this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False
