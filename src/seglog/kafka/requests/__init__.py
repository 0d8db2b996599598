"""What each request does: one module for each family; `catalog` lists them. Knows no bytes of messages."""
