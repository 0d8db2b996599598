"""What the Spark jobs share. The jobs themselves are packages beside this one, a folder each.

    ingest    files or a table to a topic; a run is stored whole, and once
    snapshot  the latest value of every key, and where to go on streaming behind it
    export    records to Parquet
    replay    a user's state machine for every key, in offset order, up to any offset
    audit     what is lost, duplicated, out of order, corrupt or was never delivered
    compact   the latest record of every key stays, the others go; written by executors

Each is a function over a SparkSession (`from seglog.spark.snapshot import snapshot`) and a program,
`python -m seglog.spark.snapshot`, whose `--help` names the file that spark-submit takes.

    pins      a path -> the logs behind it, each pinned to offsets at one moment
    tasks     shares of work -> one Spark task each, Arrow batches out
    failures  what Spark says of an error -> the seglog error behind it   (pure)
    command   what the programs share: options, session, output, exit codes

Executors open logs by path, as the data source does: a path must mean the same on all of them. Importing a job
loads neither pyspark nor pyarrow.
"""
