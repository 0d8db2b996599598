"""Reading into Spark, in batch and as a stream.

options    option strings -> frozen options                       (pure)
pushdown   Spark's filters -> what is left of a read              (pure)
site       where logs are, and what is asked of them: place, a file system; remote, a server; extents: what each holds
bounds     starts and ends -> offsets; loss: what is no longer there
plan       extents and bounds -> input partitions                 (pure)
scan       a range -> its records; blocks: of a file system, read by pread
batches    a log's Arrow batches -> the ones Spark takes          (pure)
reader     the batch reader, and what a task does
offsets    a stream's offsets as JSON                             (pure)
admission  how much a micro-batch takes: counting counts records
stream     the streaming reader
explain    the figures of a plan, for people
"""
