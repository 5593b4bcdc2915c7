#!/usr/bin/env bash
# Print name, version and digest of images that a registry has under this commit: containers/digests.sh REGISTRY VERSION NAME...
set -euo pipefail
registry=$1 version=$2 commit=$(git rev-parse HEAD)
shift 2
for name in "$@"; do
  digest=$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$registry/$name:$commit")
  echo "$name $version $digest"
done
