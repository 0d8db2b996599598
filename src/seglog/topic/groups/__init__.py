"""Consumer groups: who reads which partition, and how far each group has come.

Pure: assignment (who gets what), state (members and handovers), position (where one consumer stands). The bytes of the
log `.groups` are in records; groups keeps them and answers members; consumer reads for one.
"""

from seglog.topic.groups.groups import Groups
from seglog.topic.groups.state import GroupState, Membership, MemberState

__all__ = ["GroupState", "Groups", "MemberState", "Membership"]
