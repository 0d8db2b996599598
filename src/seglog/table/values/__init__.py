"""Values of records as typed columns. Pure: nothing here knows a table or a log.

`fields` decides which fields become columns and how their types may change; `json_blocks` reads blocks of JSON with
pyarrow; `decoded` converts values that a function, or Python's json for the few rows that pyarrow refuses, has decoded;
`fitting` converts one value to one type, exactly or not at all.
"""
