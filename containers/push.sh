#!/usr/bin/env bash
# Push images under their commit, sign each and its SBOM, and print its name, version and digest. What is there and signed
# stays as it is. They are signed with the key SIGNING_KEY, or in a workflow by its identity.
set -euo pipefail
registry=$1 version=$2
shift 2
if [ -z "$registry" ]; then
  echo "push: REGISTRY is empty; name the registry with its folder: make push REGISTRY=registry.example.com/nightshift" >&2
  exit 2
fi
case ${SIGNING_KEY:-${ACTIONS_ID_TOKEN_REQUEST_URL:+workflow}} in
"")
  echo "push: SIGNING_KEY is empty; name a key such as awskms:///alias/nightshift-images or gcpkms://..., or sign with" \
    "your own account, whose e-mail address becomes public: SIGNING_KEY=keyless" >&2
  exit 2
  ;;
workflow) options=(--yes) ;;
keyless) options=() ;; # cosign asks before it publishes the address
*) options=(--yes --key "$SIGNING_KEY") ;;
esac
commit=$(git rev-parse HEAD)
about='{{index .Config.Labels "org.opencontainers.image.revision"}} for {{.Os}}/{{.Architecture}}'
for name in "$@"; do
  built=$(docker image inspect --format "$about" "nightshift/$name:$version")
  if [ "$built" != "$commit for linux/amd64" ]; then
    echo "push: nightshift/$name:$version is of $built; it must be of $commit for linux/amd64: commit what you have" \
      "changed, then make images" >&2
    exit 2
  fi
done
for name in "$@"; do
  tag=$registry/$name:$commit
  digest() { docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$tag"; }
  if digest >/dev/null 2>&1; then
    echo "push: $tag is there already and stays" >&2
  else
    docker tag "nightshift/$name:$version" "$tag"
    docker push --quiet "$tag" >&2
    docker image inspect --format '{{join .RepoDigests "\n"}}' "$tag" | grep --quiet --line-regexp "$registry/$name@$(digest)" ||
      { echo "push: $tag is not what was pushed from here; delete it there, then push again" >&2 && exit 1; }
  fi
  image=$registry/$name@$(digest)
  # the last that is made of an image
  if ! cosign download attestation "$image" >/dev/null 2>&1; then
    cosign sign "${options[@]}" "$image" >&2
    cosign attest "${options[@]}" --type cyclonedx --predicate "runs/sbom/$name.json" "$image" >&2
  fi
  echo "$name $version ${image#*@}"
done
