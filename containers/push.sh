#!/usr/bin/env bash
# Push images under their commit, sign each and its SBOM, and print its name, version and digest.
set -euo pipefail
registry=$1 version=$2
shift 2
if [ -z "$registry" ]; then
  echo "push: REGISTRY is empty; name the registry with its folder: make push REGISTRY=registry.example.com/nightshift" >&2
  exit 2
fi
commit=$(git rev-parse HEAD)
for name in "$@"; do
  tag=$registry/$name:$commit
  docker tag "nightshift/$name:$version" "$tag"
  docker push --quiet "$tag" >&2
  # an image may have digests of other registries, too
  image=$(docker image inspect --format '{{range .RepoDigests}}{{println .}}{{end}}' "$tag" |
    grep --fixed-strings "$registry/$name@")
  cosign sign --yes "$image" >&2
  cosign attest --yes --type cyclonedx --predicate "runs/sbom/$name.json" "$image" >&2
  echo "$name $version ${image#*@}"
done
