"""The examples of docs/kafka.md run as they stand, but for the address."""

from __future__ import annotations

import contextlib
import io
import re

import pytest


@pytest.mark.examples("kafka.md")
def test_every_example_of_the_page_on_kafka_runs_as_it_stands(examples, own_kafka):
    blocks = [block for _, block in examples.take("python")]
    printed, names = io.StringIO(), {}
    with contextlib.redirect_stdout(printed):
        exec("".join(blocks).replace("127.0.0.1:9092", own_kafka().address), names)  # noqa: S102 - the page's examples
    assert printed.getvalue() == "".join(f"{shown}\n" for shown in re.findall(r"print\(.*\)\s+# (.*)", "".join(blocks)))
