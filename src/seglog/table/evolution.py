"""Change the typed columns of a table: add some, or make types wider. A commit of its own, without rows."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types
from pyiceberg.table import Table
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.types import StringType

from seglog.table.columns import columns_of, iceberg_type
from seglog.table.schema import UNFIT
from seglog.table.snapshots import changed
from seglog.table.values.fields import column_of

_UNFIT_DOC = "why columns are null that the value has; null: it fits"
_EARLIER_DOC = "why the value has no typed columns; null: it has"


def evolve(table: Table, fields: pa.StructType, properties: dict[str, str]) -> None:
    """Let a table have these typed columns and properties.

    Files are written with the ids that the columns have afterwards. A round that is interrupted between the two leaves
    columns that are null, and the next one finds them.

    Args:
        table: Refreshed by this call.
        fields: All fields of values that have columns, as `merged` returned them.
        properties: Of the table.

    Raises:
        CommitFailedException: (pyiceberg) If another program committed meanwhile; nothing is changed.
    """
    columns = columns_of(table.schema())
    wanted = {name: value for name, value in properties.items() if table.properties.get(name) != value}
    has_earlier_doc = columns.has_typed and table.schema().find_field(UNFIT).doc == _EARLIER_DOC
    if columns.has_typed and columns.typed == fields and not wanted and not has_earlier_doc:
        return
    base = table.metadata.current_snapshot_id
    with table.transaction() as transaction:
        if wanted:
            transaction.set_properties(wanted)
        with transaction.update_schema() as update:
            if not columns.has_typed:
                update.add_column(UNFIT, StringType(), doc=_UNFIT_DOC)
            elif has_earlier_doc:
                update.update_column(UNFIT, doc=_UNFIT_DOC)
            for field in fields:
                _change(update, (column_of(field.name),), columns.typed, field)
    if table.metadata.current_snapshot_id != base:  # the rows to add were chosen for an earlier state
        raise changed()


def _change(update: UpdateSchema, path: tuple[str, ...], known: pa.StructType, field: pa.Field) -> None:
    index = known.get_field_index(field.name)
    if index < 0:
        update.add_column(path, iceberg_type(field.type, ".".join(path)))
    else:
        _widen(update, path, known.field(index).type, field.type)


def _widen(update: UpdateSchema, path: tuple[str, ...], known: pa.DataType, kind: pa.DataType) -> None:
    if types.is_struct(kind):
        for field in kind:
            _change(update, (*path, field.name), known, field)
    elif types.is_list(kind):
        _widen(update, (*path, "element"), known.value_type, kind.value_type)
    elif types.is_map(kind):
        _widen(update, (*path, "value"), known.item_type, kind.item_type)
    elif known != kind:
        update.update_column(path, iceberg_type(kind, ".".join(path)))
