"""Who may send a request: tokens, and where it comes from."""
