"""Reading into Spark, in batch and as a stream.

options    option strings -> frozen options                       (pure)
log_access the interface to logs: local_logs, a file system; server_logs, a server; tiered, with a table below;
           sites chooses; extents: what each log holds
bounds     starts and ends -> offsets; loss: what no longer exists
plan       extents and bounds -> input partitions                 (pure)
scan       a range -> its records; blocks: of a file system, read with pread
batches    a log's Arrow batches -> Spark's                       (pure)
reader     the batch reader, and what a task does
offsets    a stream's offsets as JSON                             (pure)
admission  how much a micro-batch takes: counting counts records
stream     the streaming reader
explain    the figures of a plan, for people
"""
