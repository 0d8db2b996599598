"""The examples of docs/kafka.md run as they stand, but for the address."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "kafka.md"


def test_every_example_of_the_page_on_kafka_runs_as_it_stands(own_kafka):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    printed, names = io.StringIO(), {}
    with contextlib.redirect_stdout(printed):
        exec("".join(blocks).replace("127.0.0.1:9092", own_kafka().address), names)  # noqa: S102 - the page's examples
    assert printed.getvalue() == "".join(f"{shown}\n" for shown in re.findall(r"print\(.*\)\s+# (.*)", "".join(blocks)))
