"""Features of a cluster, as Kafka versions them: which ones this server has, and that none of them changes."""

from __future__ import annotations

from seglog.kafka import codes
from seglog.kafka.requests.call import Call, Values
from seglog.kafka.requests.operations import cluster_refusal

FEATURES = {"group.version": 1}
"""Feature -> its only version. group.version 1: groups may use the consumer protocol (KIP-848)."""
EPOCH = 0


def shown_features() -> Values:
    """Return the fields of ApiVersions about features: their versions cannot be changed, so both ends are the same."""
    return {
        "supported_features": [
            {"name": name, "min_version": version, "max_version": version} for name, version in FEATURES.items()
        ],
        "finalized_features_epoch": EPOCH,
        "finalized_features": [
            {"name": name, "max_version_level": version, "min_version_level": version}
            for name, version in FEATURES.items()
        ],
    }


async def update_features(call: Call) -> Values:
    """Refuse every version but the present one; as with Kafka, one refusal is that of the whole request."""
    refusal = cluster_refusal(call.caller)
    if refusal is not None:
        return refusal
    wanted = {one["feature"]: one["max_version_level"] for one in call.values["feature_updates"]}
    for feature, version in wanted.items():
        if FEATURES.get(feature) != version:
            known = ", ".join(f"{name} {only}" for name, only in FEATURES.items())
            message = f"feature {feature!r} cannot have version {version}; this server has {known}, and no other"
            return {"error_code": codes.INVALID_UPDATE_VERSION, "error_message": message, "results": []}
    return {"results": [{"feature": name} for name in wanted]}
