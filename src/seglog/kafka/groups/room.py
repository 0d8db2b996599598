"""What groups and their members may hold: numbers, and about how many bytes something takes in memory."""

from __future__ import annotations

MOST_MEMBERS = 1000
"""Of one group."""
MEMBER_BYTES = 1024
"""What a member takes beside what it sent, about."""
NAME_BYTES = 64
"""What a name takes beside its letters, about."""
