"""The directories and names of topics: creating, finding and deleting them."""
