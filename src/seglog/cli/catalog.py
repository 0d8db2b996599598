"""The commands of `seglog` by name: the module that declares each, and its line in `seglog --help`.

The help prints this table and imports no command; `frame.Program` imports the module of the command that runs. To add a
command, declare it in a module's COMMANDS and add it here: tests/cli/test_help.py compares the two.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """module: below seglog.cli; summary: one line, no capital, no full stop."""

    module: str
    summary: str


SECTIONS: dict[str, dict[str, Entry]] = {
    "Records": {
        "append": Entry("append", "append records and print their offsets"),
        "read": Entry("read", "print one record or a range of records"),
        "tail": Entry("read", "print the last records, and follow the log as it grows"),
        "consume": Entry("consume", "print and commit the records that a consumer group has not read yet"),
        "replay": Entry("replay", "apply records to a state machine, and print its state"),
        "import": Entry("transfer", "append the records of a file"),
        "export": Entry("transfer", "write records to a file"),
    },
    "Logs": {
        "info": Entry("info", "show what a log holds, its config and its segments"),
        "verify": Entry("repair", "check every byte of a log, a topic or a directory of topics, change nothing"),
        "repair": Entry(
            "repair", "move damage aside, so that the rest of a log, a topic or a directory of topics is usable"
        ),
        "backup": Entry("backup", "copy a log, a topic or a directory of topics, also while a process writes to it"),
        "archive": Entry("archive", "copy a log, a topic or a directory of topics to object storage, continuously"),
        "lease": Entry("archive", "show which process leads, by the lease beside an archive"),
        "restore": Entry("archive", "copy an archive on object storage back to a directory"),
        "table": Entry("table", "keep an Apache Iceberg table of a log or of topics, which other engines read"),
        "truncate": Entry("truncate", "delete all records from an offset on"),
        "delete-before": Entry("truncate", "delete all records before an offset"),
        "compress": Entry("compress", "store sealed segments in compressed blocks, or plain again"),
        "expire": Entry("truncate", "delete the oldest segments that retention no longer keeps"),
    },
    "Logs that are compacted by key": {
        "compact": Entry("compact", "keep the latest record of every key, delete the others"),
        "explain": Entry("compact", "show why a record is still there, or why it is not"),
        "pin": Entry("compact", "register a follower, so that tombstones stay until it has read them"),
        "audit": Entry("audit", "count keys, and list latest values that a consumer group has not received"),
    },
    "Copies that follow a leader": {
        "mirror": Entry("mirror", "keep a copy of a log, a topic, a directory of topics, or all topics of a server"),
        "diff": Entry("mirror", "compare two copies, and list where they disagree"),
        "promote": Entry("mirror", "make a copy a leader, which accepts records"),
    },
    "Topics and servers": {
        "topics": Entry("topics", "list, create, alter and delete topics"),
        "groups": Entry("groups", "show consumer groups and their lag; reset or delete one"),
        "serve": Entry("serve", "serve topics over HTTP"),
        "token": Entry("serve", "create a token for the server and add it to a token file"),
    },
    "Other": {
        "completion": Entry("completion", "print the completion script for bash, zsh or fish"),
        "warm": Entry("warm", "load or compile the kernels before the first batch, for container images"),
        "demo": Entry("demo", "run the demo: real data through a log and Spark, with figures and charts"),
    },
}

COMMANDS: dict[str, Entry] = {name: entry for section in SECTIONS.values() for name, entry in section.items()}
