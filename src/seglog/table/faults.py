"""Errors of the libraries that keep tables, as errors of seglog."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from pyiceberg.exceptions import CommitFailedException, RESTError, ValidationError
from sqlalchemy.exc import SQLAlchemyError

from seglog.errors import CorruptLog, LogLocked, SeglogError, StorageError


@contextmanager
def as_ours(table: str) -> Iterator[None]:
    """Turn what files, the catalog and a commit raise into errors of seglog. table: its name, or where tables are.

    Raises:
        LogLocked: Another program committed to the table at the same time; nothing was changed.
        CorruptLog: The table's metadata is damaged.
        StorageError: A file or the catalog cannot be read or written.
    """
    try:
        yield
    except SeglogError:
        raise
    except CommitFailedException as error:
        raise LogLocked(f"another program has committed to the table {table} meanwhile; try again") from error
    except ValidationError as error:
        raise CorruptLog(f"the metadata of the table {table} cannot be used: {error}") from error
    except OSError as error:
        raise StorageError(error.errno or errno.EIO, f"table {table}: {error.strerror or error}") from error
    except (SQLAlchemyError, RESTError) as error:
        raise StorageError(errno.EIO, f"the catalog of table {table} failed: {error}") from error
