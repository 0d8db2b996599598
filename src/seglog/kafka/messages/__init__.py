"""The requests and responses that this server knows, each declared once. Knows no broker."""
