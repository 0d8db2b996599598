#!/bin/sh
# Creates the tokens of compose.yaml in secrets/, once, and prints the operator's. Needs `seglog`, or builds the image.
set -eu
cd "$(dirname "$0")"
if [ -e secrets/server.json ]; then
    echo "secrets/ exists: remove it to create other tokens" >&2
    exit 1
fi
command -v seglog >/dev/null || {
    docker build -q -f Dockerfile -t seglog .. >/dev/null
    seglog() { docker run --rm -u "$(id -u)" -v "$PWD/secrets:/secrets" -w / seglog "$@"; }
}
mkdir -p secrets
chmod 700 secrets # the files in it must be readable for the user in the containers
seglog token secrets/server.json follower '*=admin' >secrets/follower
seglog token secrets/server.json metrics '*=read' >secrets/metrics
operator=$(seglog token secrets/server.json operator '*=admin')
chmod 644 secrets/server.json secrets/follower secrets/metrics
echo "the operator's token: $operator"
