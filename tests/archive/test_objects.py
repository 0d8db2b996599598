"""The contract of an object store, on every kind of store."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

import seglog
from seglog.archive.urls import store_at

if TYPE_CHECKING:
    from seglog.archive.objects import ObjectStore

pytestmark = pytest.mark.xdist_group("s3")


def test_an_object_is_created_once_and_keeps_its_first_content(objects: ObjectStore) -> None:
    assert objects.create("commits/1.json", b"one")
    assert not objects.create("commits/1.json", b"two")
    assert objects.read("commits/1.json") == b"one"


def test_of_racing_writers_one_creates_the_object(objects: ObjectStore) -> None:
    with ThreadPoolExecutor(4) as pool:
        for number in range(5):
            won = list(pool.map(lambda who, n=number: objects.create(f"commits/{n}", b"%d" % who), range(4)))
            assert won.count(True) == 1
            assert objects.read(f"commits/{number}") == b"%d" % won.index(True)


def test_an_object_is_put_in_parts_replaced_and_read_in_ranges(objects: ObjectStore) -> None:
    objects.put("logs/a/x.store", [b"old"], 3)
    objects.put("logs/a/x.store", [b"abc", memoryview(b"defg")], 7)
    assert objects.read("logs/a/x.store") == b"abcdefg"
    assert objects.read("logs/a/x.store", 2, 5) == b"cde"
    assert objects.read("logs/a/x.store", 5) == b"fg"
    assert objects.read("logs/a/x.store", 3, 3) == b""


def test_a_large_object_is_put_in_several_parts(objects: ObjectStore) -> None:
    parts = [bytes([number]) * (1024 * 1024) for number in range(17)]
    objects.put("logs/large.store", parts, 17 * 1024 * 1024)
    assert objects.read("logs/large.store", 16 * 1024 * 1024 - 1, 16 * 1024 * 1024 + 1) == b"\x0f\x10"


def test_keys_are_listed_in_order_from_a_key_on(objects: ObjectStore) -> None:
    assert list(objects.keys("commits/")) == []
    for number in (3, 1, 2):
        objects.create(f"commits/{number}", b"")
    objects.put("logs/b/c.store", [b"x"], 1)
    assert list(objects.keys("commits/")) == ["commits/1", "commits/2", "commits/3"]
    assert list(objects.keys("commits/", "commits/1")) == ["commits/2", "commits/3"]
    assert list(objects.keys("logs/")) == ["logs/b/c.store"]


def test_a_deleted_object_is_gone_and_deleting_it_again_is_no_error(objects: ObjectStore) -> None:
    objects.create("a/b", b"x")
    assert objects.exists("a/b")
    objects.delete("a/b")
    objects.delete("a/b")
    assert not objects.exists("a/b")
    with pytest.raises(seglog.StorageError) as caught:
        objects.read("a/b")
    assert caught.value.errno == errno.ENOENT


@pytest.mark.parametrize("url", ["orders", "ftp://host/x", "s3://", "file://host/x", "memory://"])
def test_another_url_is_refused(url: str) -> None:
    with pytest.raises(seglog.InvalidArgument, match="is not the URL of an archive"):
        store_at(url)
