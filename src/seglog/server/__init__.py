"""`seglog serve`: topics over HTTP. Needs the extra `seglog[server]`."""
