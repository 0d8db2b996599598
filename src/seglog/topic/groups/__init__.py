"""Consumer groups: which member reads which partition, and the committed offsets.

Pure: assignment (who gets what), state (members and handovers), position (one consumer's positions). records: the bytes
of the log `.groups`; groups: stores them and answers members; consumer: reads for one group.
"""

from seglog.topic.groups.groups import Groups
from seglog.topic.groups.state import GroupState, Membership, MemberState

__all__ = ["GroupState", "Groups", "MemberState", "Membership"]
