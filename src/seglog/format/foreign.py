"""What comes from outside as JSON, and may be of any shape: what taking it for our values may raise. Pure.

One list for all who read such values, because each of its lines was once missing somewhere: JSON nests as deep as it
likes (RecursionError), and its numbers may be 1e999, which is infinite and no int (OverflowError).
"""

from __future__ import annotations

UNREADABLE = (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError)
"""What reading JSON, and looking up, counting and unpacking what it says, may raise where it is not as it should be."""
