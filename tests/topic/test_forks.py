"""What a forked child may do with a broker, its topics and groups: read. A refused call changes nothing on the disk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import HANG_SECONDS

CALLS: dict[str, str] = {
    "Broker.create_topic": "broker.create_topic('new')",
    "Broker.delete_topic": "broker.delete_topic('orders')",
    "Broker.alter_topic": "broker.alter_topic('orders', retention=seglog.Retention(bytes=1))",
    "Broker.sync": "broker.sync()",
    "Topic.append": "topic.append(b'child')",
    "Topic.append with a key of its own": "topic.append(b'child', once='child-1')",
    "Topic.append_stream": "topic.append_stream([b'child'])",
    "Topic.append_batch": "topic.append_batch(table)",
    "Topic.alter": "topic.alter(retention=seglog.Retention(bytes=1))",
    "Topic.publish": "topic.publish(staged, query='q', batch=0)",
    "Topic.sync": "topic.sync()",
    "Topic.open": "seglog.Topic.open(root + '/orders')",
    "Topic.create": "seglog.Topic.create(root + '/orders', partitions=2)",
    "Log.append": "log.append(b'child')",
    "Log.append_each": "log.append_each([seglog.log.appends.group.Draft(b'child')])",
    "Log.append_at": "log.append_at(log.next_offset, log.read(0))",
    "Log.append_batch": "log.append_batch(table)",
    "Log.append_stream": "log.append_stream([b'child'])",
    "Log.truncate": "log.truncate(3)",
    "Log.expire": "log.expire()",
    "Log.compact": "log.compact(roll=True)",
    "Log.alter": "log.alter(retention=seglog.Retention(bytes=1))",
    "Log.publish": "log.publish(staged[0], query='q', batch=0)",
    "Log.repair": "log.repair()",
    "Log.remove": "log.remove()",
    "Log.sync": "log.sync()",
    "open for writing": "seglog.open(root + '/orders/0')",
    "repair": "seglog.repair(root + '/orders/0')",
    "repair of a directory": "seglog.topic.repair.repair_place(root)",
    "open the broker": "seglog.Broker(root)",
    "Groups.commit": "broker.groups.commit('others', {'orders': {0: 1}})",
    "Groups.delete": "broker.groups.delete('static')",
    "Groups.join": "broker.groups.join('billing', ['orders'])",
    "Groups.cut": "broker.groups.cut('orders', 0, 1)",
    "Groups.forget_topic": "broker.groups.forget_topic('orders')",
    "Consumer.commit": "(consumer.seek('orders', 0, 1), consumer.commit())",
    "Broker.consumer": "broker.consumer('billing', ['orders'])",
    "Cleaner.run_once": "cleaner.run_once()",
    "Cleaner.start": "cleaner.start()",
}

PROGRAM = """
import hashlib, json, os, signal, sys, pyarrow, seglog, seglog.topic.repair, seglog.log.appends.group
from seglog.log.staging import Stage
root, calls = sys.argv[1], json.loads(sys.stdin.read())
small = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(compact=False))
broker = seglog.Broker(root)
topic = broker.create_topic('orders', partitions=2, config=small)
log = topic.partition(0)
for number in range(20):
    log.append(b'v%d' % number, key=b'k%d' % (number % 3))
table = pyarrow.table({'value': [b'child'], 'key': [b'k']})
with Stage(seglog.LocalStorage(root + '/orders/0'), 'q-0') as stage:
    stage.append_batch(table)
    staged = {0: stage.finish()}
broker.groups.commit('static', {'orders': {0: 5}}, durable=True)
consumer = broker.consumer('readers', ['orders'])
consumer.poll(max_records=4)
consumer.commit(durable=True)
cleaner = seglog.Cleaner(broker.logs)
broker.sync()

def tree():
    found = {}
    for directory, _, names in os.walk(root):
        found[directory] = None
        for name in names:
            with open(os.path.join(directory, name), 'rb') as file:
                found[os.path.join(directory, name)] = hashlib.sha1(file.read()).hexdigest()
    return found

def in_a_child(work):
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            work()
            answer = 'nothing'
        except seglog.SeglogError as error:
            answer = type(error).__name__
        except BaseException as error:
            answer = repr(error)
        os.write(into, answer.encode())
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as told:
        answer = told.read()
    os.waitpid(child, 0)
    return answer

before, results = tree(), {}
for name, call in calls.items():
    answer = in_a_child(lambda: eval(call))
    after = tree()
    changed = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
    results[name] = [answer, changed]
    before = after
results['reading'] = [in_a_child(lambda: print(end='', file=sys.stderr) if [r.value for r in log.scan()][-1] == b'v19'
                                 and len(consumer.poll()) == 16 else 1 / 0), []]
results['closing'] = [in_a_child(lambda: (consumer.close, broker.close())), []]
topic.append(b'parent', partition=0)
consumer.poll(); consumer.commit(durable=True)
broker.close()
with seglog.Broker(root) as again:
    results['parent'] = [str([record.value for record in again.topic('orders').partition(0).scan()][-1]),
                         [str(again.recovered), str(again.groups.committed('readers'))]]
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each call raised in a forked child, and which files it changed."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path_factory.mktemp("forks") / "broker")],
        input=json.dumps(CALLS),
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("call", CALLS)
def test_a_forked_child_is_refused_every_change_and_changes_nothing(results: dict[str, Any], call: str) -> None:
    error, changed = results[call]
    assert changed == []
    assert error in ("LogReadOnly", "LogLocked", "InvalidArgument", "GroupConflict")
    assert (error == "InvalidArgument") <= (call == "Topic.create")
    assert (error == "LogLocked") <= call.startswith(("repair", "open", "Topic.open"))


def test_a_forked_child_reads_what_its_parent_wrote_and_closes_without_harm(results: dict[str, Any]) -> None:
    assert results["reading"][0] == "nothing"
    assert results["closing"][0] == "nothing"
    assert results["parent"] == ["b'parent'", ["()", "{'orders': {0: 21, 1: 0}}"]]


LOCKS = """
import os, sys, time, seglog
root = sys.argv[1]
broker = seglog.Broker(root)
topic = broker.create_topic('orders')
topic.append(b'parent'); broker.sync()
told, tell = os.pipe()
go, begin = os.pipe()
if os.fork() == 0:
    os.close(begin)
    broker.topic('orders').partition(0).close() if sys.argv[2] == 'closes' else None
    os.write(tell, b'x')
    os.read(go, 1)  # until the parent has ended, or nearly: the system closes its files one by one
    def opened():
        while True:
            try:
                return seglog.Broker(root)
            except seglog.LogLocked:
                time.sleep(0.001)
    with opened() as mine:
        mine.topic('orders').append(b'next')
        refused = 0
        for call in (lambda: broker.delete_topic('orders'), lambda: topic.append(b'late'), topic.sync):
            try:
                call()
            except (seglog.LogReadOnly, seglog.LogClosed):
                refused += 1
        values = [record.value for record in mine.topic('orders').partition(0).scan()]
    print(refused, values, flush=True)
    os._exit(0)
os.read(told, 1)
try:
    seglog.open(root + '/orders/0')
except seglog.LogLocked:
    print('locked', flush=True)
topic.append(b'still mine'); broker.sync()
os._exit(0)  # without closing anything
"""


@pytest.mark.parametrize("child", ["closes", "keeps"])
def test_the_lock_is_the_parents_while_it_lives_and_free_when_only_its_child_is_left(
    tmp_path: Path, child: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOCKS, str(tmp_path / "broker"), child],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["locked", "3 [b'parent', b'still mine', b'next']"]
