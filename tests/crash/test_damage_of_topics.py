"""Every bit and length of what makes logs a topic: topic.json, and the file of an unfinished batch."""

from __future__ import annotations

import json
from typing import Any

import pytest

from seglog.errors import SeglogError
from seglog.storage import MemoryStorage
from seglog.testing import damage as harm
from seglog.topic import description
from seglog.topic.description import Description
from seglog.topic.transaction import Transaction, commit, unfinished

PARTS = [harm.bits, harm.lengths, harm.blocks]


def written(what: Any) -> tuple[MemoryStorage, str, bytes]:
    storage = MemoryStorage()
    storage.make(())
    if isinstance(what, Description):
        description.write(storage, what)
        name = description.FILE_NAME
    else:
        commit(storage, what)
        name = what.file
    file = storage.open(name)
    return storage, name, file.pread(file.size(), 0)


def read_back(storage: MemoryStorage, what: Any) -> Any:
    return description.read(storage) if isinstance(what, Description) else next(unfinished(storage))


WRITTEN = [Description.new("orders", 4), Transaction(query="q", batch=7, staged={})]


@pytest.mark.parametrize("what", WRITTEN, ids=["topic.json", "txn"])
@pytest.mark.parametrize("part", PARTS, ids=["bits", "lengths", "blocks"])
def test_a_damaged_file_says_what_it_said_or_is_refused(what: Any, part: Any, tell: Any) -> None:
    storage, name, data = written(what)
    refused = unchanged = 0
    for damage in part(name, data):
        storage.create(name, replace=True).pwrite(damage.changes[name], 0)
        try:
            found = read_back(storage, what)
        except SeglogError:
            refused += 1
        else:
            assert found == what, damage.name
            unchanged += 1
    assert refused > 0
    tell("damage", what=part.__name__, file=name, damages=refused + unchanged, refused=refused, healed=unchanged)


def test_a_topic_from_before_the_check_is_read() -> None:
    storage, name, data = written(WRITTEN[0])
    values = json.loads(data)
    del values["check"]
    storage.create(name, replace=True).pwrite(json.dumps(values).encode(), 0)
    assert description.read(storage) == WRITTEN[0]
