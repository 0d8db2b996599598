"""Kafka's wire protocol: Kafka's own clients produce to the topics of a server and consume from them.

    wire        bytes <-> values of messages, from their declarations
    messages    the requests and responses, each declared once
    records     record batches <-> Arrow
    codes       Kafka's error codes, and the code for each error of seglog
    requests    what each request does; `catalog` lists them
    dispatch    one request: its head, its handler, its response
    connection  one TCP connection, bounded
    listener    starts and stops with the server

Needs the extra `seglog[kafka]`: without it importing this package raises MissingExtra. `seglog serve --kafka` starts it
beside HTTP, on the same broker.
"""

from seglog.extras import require
from seglog.server import PACKAGES

require("Kafka's protocol needs", "crc32c", "lz4", *PACKAGES, extra="kafka")
