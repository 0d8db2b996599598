"""Client of `seglog serve`, sync and async. Needs the extra `seglog[client]`."""
