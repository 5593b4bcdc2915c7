#!/usr/bin/env bash
# Copy the images that standard input names, with their signatures, from one registry to another under their version.
# None is copied unless the workflow SIGNER signed all.
set -euo pipefail
source=$1 registry=$2 signer=$3
if [ -z "$source" ] || [ -z "$registry" ] || [ -z "$signer" ]; then
  echo "promote: SOURCE, REGISTRY and SIGNER must not be empty; docs/guides/delivery.md says what they are" >&2
  exit 2
fi
images=$(grep --invert-match '^#') || { echo "promote: containers/prod.txt names no image" >&2; exit 2; }
while read -r name _ digest; do
  cosign verify --certificate-oidc-issuer https://token.actions.githubusercontent.com --certificate-identity "$signer" \
    "$source/$name@$digest" </dev/null >/dev/null
done <<<"$images"
while read -r name version digest; do
  cosign copy "$source/$name@$digest" "$registry/$name:$version" </dev/null
  echo "promoted $registry/$name:$version, $digest"
done <<<"$images"
"$(dirname "$0")/keep.sh" "$registry" <<<"$images"
