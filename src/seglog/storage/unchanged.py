"""A file whose content is never changed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NoReturn

from seglog.storage.base import Buffer


class UnchangedFile(ABC):
    """The calls of a `File` that change it: each raises what `_refuse` raises."""

    @abstractmethod
    def _refuse(self) -> NoReturn:
        """Raise why the file is never changed."""

    def pwrite(self, data: Buffer, position: int) -> None:  # noqa: ARG002 - refused
        """Raise an error."""
        self._refuse()

    def pwritev(self, parts: Sequence[Buffer], position: int) -> None:  # noqa: ARG002 - refused
        """Raise an error."""
        self._refuse()

    def truncate(self, size: int) -> None:  # noqa: ARG002 - refused
        """Raise an error."""
        self._refuse()
