"""Why a record is still in a log, or why it is not."""
