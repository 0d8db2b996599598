"""What a running server holds: memory, threads, queues, files."""
