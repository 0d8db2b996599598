"""The table of clients in docs/kafka.md is what the Python clients do against a real server."""

from __future__ import annotations

import pytest

from tests.kafka.matrix import PAGE, rows, table


@pytest.mark.proof
def test_the_table_of_the_page_is_what_the_python_clients_can_do(kafka):
    page = PAGE.read_text().split("\n")
    for line in table(rows(kafka)):
        assert line in page, line
