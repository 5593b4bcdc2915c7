#!/usr/bin/env bash
# Tag the images that standard input names, so that the rules of their registry keep them: containers/keep.sh REGISTRY
set -euo pipefail
registry=$1
while read -r name _ digest; do
  case $name in "" | "#"*) continue ;; esac
  tag=$registry/$name:keep-${digest#sha256:}
  docker buildx imagetools inspect "$tag" </dev/null >/dev/null 2>&1 || cosign copy "$registry/$name@$digest" "$tag" </dev/null >&2 || {
    echo "keep: $registry/$name@$digest has no tag keep-..., without which the registry deletes it 180 days after its" \
      "push; whoever may push there runs containers/keep.sh $registry with this list" >&2
    exit 1
  }
done
