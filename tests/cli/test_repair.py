"""`verify` and `repair` of whole places: what is said, in which words, and with which exit code it ends."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.terminal.exits import Exit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SALVAGED = "readable records are copied to a new store, the old one goes to quarantine/"
CONFIG = seglog.LogConfig(segment_bytes=512)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A broker of one topic; the present directory is the one it is in."""
    monkeypatch.chdir(tmp_path)
    with seglog.Broker("shop") as broker:
        topic = broker.create_topic("orders", partitions=2, config=CONFIG)
        for number in range(20):
            topic.append(b"value %02d" % number, partition=number % 2)
    return tmp_path / "shop"


def damage(path: Path) -> None:
    """Let the third record be another."""
    data = bytearray(path.read_bytes())
    data[64 + 2 * (32 + 8) + 35] ^= 1
    path.write_bytes(data)


def test_a_sound_place_is_a_line_for_every_log_and_a_total(cli: Callable[..., Any], shop: Path) -> None:
    shown = cli("verify", "shop")
    assert (shown.code, shown.err) == (Exit.OK, "")
    assert shown.text.splitlines() == [
        "shop/.groups: ok: 0 records, 64 B, 1 segment",
        "shop/orders/0: ok: 10 records, 464 B, 1 segment",
        "shop/orders/1: ok: 10 records, 464 B, 1 segment",
        "total: 1 topic, 3 logs: 3 intact, 0 damaged; 20 records readable, 992 B",
    ]
    assert cli("repair", "shop").text == "nothing to repair\n"
    assert cli("verify", shop, "--quiet").out == b""


def test_damage_is_told_with_its_place_and_what_is_still_readable(cli: Callable[..., Any], shop: Path) -> None:
    damage(shop / "orders" / "1" / "00000000000000000000-1.store")
    shown = cli("verify", "shop")
    assert shown.code == Exit.FAILED
    assert shown.text.splitlines()[2:] == [
        "shop/orders/1: DAMAGED: 1 problem; 9 records readable, 464 B, 1 segment",
        "  record: shop/orders/1/00000000000000000000-1.store, offset 2, position 144: its checksum does not match",
        "  not readable: offset 2",
        "total: 1 topic, 3 logs: 2 intact, 1 damaged; 19 records readable, 992 B",
        "`seglog repair shop --dry-run` shows what a repair would do",
    ]


def test_a_dry_run_says_what_for_and_that_nothing_was_changed(cli: Callable[..., Any], shop: Path) -> None:
    damage(shop / "orders" / "1" / "00000000000000000000-1.store")
    shown = cli("repair", "shop", "--dry-run")
    assert shown.code == Exit.FAILED
    assert shown.text.splitlines() == [
        "would be done:",
        "  salvage: shop/orders/1/00000000000000000000-1.store",
        "    because: its checksum does not match",
        f"    then: {SALVAGED}; offset 2 can no longer be read",
        "lost: at least 1 record",
        "nothing was changed",
    ]


def test_a_repair_says_where_the_evidence_is_kept(cli: Callable[..., Any], shop: Path) -> None:
    damage(shop / "orders" / "1" / "00000000000000000000-1.store")
    shown = cli("repair", "shop", "--yes")
    assert shown.code == Exit.OK
    kept = [line.split()[1] for line in shown.text.splitlines() if line.startswith("  kept: ")]
    assert "shop/orders/1/quarantine/00000000000000000000-1.store" in kept
    assert all((shop.parent / name).exists() for name in kept)
    assert cli("verify", "shop").code == Exit.OK
    assert cli("repair", "shop", "--yes").text == "nothing to repair\n"


def test_what_is_left_to_do_by_hand_is_told_and_is_exit_code_1(cli: Callable[..., Any], shop: Path) -> None:
    shutil.rmtree(shop / "orders" / "0")
    shown = cli("repair", "shop", "--yes")
    assert shown.code == Exit.FAILED
    assert "to be done manually:\n  leave: shop/orders/0\n" in shown.text
    assert "`seglog append shop/orders/0 --lines < /dev/null`" in shown.text
    assert cli("append", "shop/orders/0", "--lines").code == Exit.OK
    assert cli("verify", "shop").code == Exit.OK


def test_what_could_not_be_looked_at_has_an_exit_code_of_its_own(cli: Callable[..., Any], shop: Path) -> None:
    log = shop / "orders" / "0"
    for name in [*log.glob("MANIFEST*"), *log.glob("*.store")]:
        name.unlink()
    (shop / "orders" / "1" / "MANIFEST").unlink()
    shown = cli("verify", "shop")
    assert "shop/orders/0: CANNOT BE CHECKED: " in shown.text
    assert "1 could not be checked" in shown.text
    (log / "MANIFEST").mkdir()
    assert cli("verify", "shop").code == Exit.IO


def test_beside_a_server_verify_says_so_and_repair_says_what_to_do(cli: Callable[..., Any], shop: Path) -> None:
    with seglog.Broker(shop) as broker:
        broker.topic("orders")
        shown = cli("verify", "shop")
        assert shown.code == Exit.OK
        assert "shop/orders/0: ok: 10 records, 464 B, 1 segment; a process is writing to it" in shown.text
        refused = cli("repair", "shop", "--yes")
        assert refused.code == Exit.LOCKED
        assert "stop it and repeat the repair" in refused.err
        assert cli("repair", "shop", "--dry-run").text == "nothing to repair\n"


def test_json_tells_the_same_of_every_log(cli: Callable[..., Any], shop: Path) -> None:
    damage(shop / "orders" / "1" / "00000000000000000000-1.store")
    (shop / "orders" / "topic.json").unlink()
    told = cli("verify", shop, "--json").json
    assert (told["kind"], told["ok"], told["path"]) == ("broker", False, str(shop))
    assert [problem["kind"] for problem in told["topics"][0]["problems"]] == ["description"]
    assert {log["name"]: log["ok"] for log in told["logs"]} == {".groups": True, "orders/0": True, "orders/1": False}
    gap = told["logs"][2]["unreadable"][0]
    assert (gap["first"], gap["stop"]) == (2, 3)
    planned = cli("repair", shop, "--dry-run", "--json").json
    done = cli("repair", shop, "--yes", "--json").json
    for report in (planned, done):
        assert [action["kind"] for action in report["topics"][0]["actions"]] == ["rebuild"]
        assert [log["records_lost"] for log in report["logs"]] == [0, 0, 1]
    assert (planned["dry_run"], done["dry_run"]) == (True, False)


def test_a_log_alone_that_cannot_be_looked_at_is_an_error_as_of_any_command(
    cli: Callable[..., Any], shop: Path
) -> None:
    for name in shop.rglob("*.store"):
        name.unlink()
    for name in shop.rglob("MANIFEST*"):
        name.unlink()
    ended = cli("verify", shop / "orders" / "0", "--json")
    assert ended.code == Exit.FAILED
    assert json.loads(ended.err)["error"] == "CorruptLog"
