#!/usr/bin/env bash
# Push images under their commit, sign each and its SBOM, and print its name, version and digest. What is there and signed
# stays as it is.
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
  digest() { docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$tag"; }
  if ! digest >/dev/null 2>&1; then
    docker tag "nightshift/$name:$version" "$tag"
    docker push --quiet "$tag" >&2
  fi
  image=$registry/$name@$(digest)
  # the last that is made of an image
  if ! cosign download attestation "$image" >/dev/null 2>&1; then
    cosign sign --yes "$image" >&2
    cosign attest --yes --type cyclonedx --predicate "runs/sbom/$name.json" "$image" >&2
  fi
  echo "$name $version ${image#*@}"
done
