"""Requests as the server declares, checks and describes them."""
