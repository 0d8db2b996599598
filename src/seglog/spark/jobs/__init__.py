"""Shared by the Spark jobs, which are packages beside this one.

    ingest    files or a table to a topic; a run is stored atomically and once
    snapshot  the latest value of every key, and where to continue streaming
    export    records to Parquet
    replay    a user's state machine per key, in offset order, up to any offset
    audit     what is lost, duplicated, out of order, corrupt or was never delivered
    compact   keeps the latest record of every key; written by executors

Each is a function over a SparkSession (`from seglog.spark.snapshot import snapshot`) and a program,
`python -m seglog.spark.snapshot`, whose `--help` names the file for spark-submit.

    pins      a path -> its logs, each pinned to offsets at one moment
    tasks     parts of the work -> one Spark task each, Arrow batches out
    failures  Spark's error text -> the seglog error in it   (pure)
    command   shared by the programs: options, session, output, exit codes

Executors open logs by path, as the data source does: a path must mean the same on all of them. Importing a job imports
neither pyspark nor pyarrow.
"""
