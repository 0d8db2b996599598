"""The errors that reading foreign JSON may raise, whatever its shape. Pure.

One list for all readers, because each entry was once missing somewhere: JSON may be nested to any depth
(RecursionError), and a number may be 1e999, which is infinite (OverflowError as an int).
"""

from __future__ import annotations

UNREADABLE = (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError)
"""What reading JSON, and looking up, counting and unpacking its values, may raise if it is invalid."""
