"""Copies a registered version into a repository of the Hub: a commit and a tag a version, the same one once."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nightshift import storage
from nightshift.contracts import package
from nightshift.contracts.package import MANIFEST, Format
from nightshift.hub.connection import SCHEME, TOKEN, HubReference, connect, hash_as_git
from nightshift.runtime.errors import UserError

if TYPE_CHECKING:
    from huggingface_hub import CommitOperationAdd, HfApi

README = "README.md"
ATTRIBUTES = ".gitattributes"  # the Hub's own
# samples of rows (Parquet), by which drift is measured, are the user's data and stay in the registry
FORMATS = (Format.ONNX, Format.SAFETENSORS, Format.JSON, Format.GGUF)


@dataclass(frozen=True)
class HubVersion:
    """A version to publish.

    Attributes:
        number: of the version, by which its tag is named.
        uri: folder of its files, local.
        readme: the model card with the Hub's metadata.
    """

    number: int
    uri: str
    readme: str

    @property
    def tag(self) -> str:
        """The tag."""
        return f"v{self.number}"

    def list_files(self) -> list[str]:
        """Return the names of the files that are published beside the card, the manifest last.

        Raises:
            UserError: when a file is not the one that the manifest names.
        """
        files = [file for file in package.load(self.uri).files if file.format in FORMATS]
        for file in files:
            path = storage.join(self.uri, file.name)
            package.check(path, storage.digest(path), file)
        return [*(file.name for file in files), MANIFEST]


def publish(version: HubVersion, reference: HubReference, is_public: bool) -> bool:
    """Have a repository hold a version; return whether it did not yet.

    Args:
        version: what is published.
        reference: the repository, which is created when it is new.
        is_public: whether everybody may see it.

    Raises:
        UserError: when there is no token, the repository is public by mistake or of something else, or the Hub refuses.
        UnavailableError: when the Hub does not answer.
    """
    if not os.environ.get(TOKEN):
        raise UserError(f"{TOKEN} is not set; set it to a token that may write to {reference.name}")
    files = version.list_files()
    with connect() as api:
        api.create_repo(reference.name, private=not is_public, exist_ok=True)
        if not (is_public or api.model_info(reference.name).private):
            raise UserError(f"{SCHEME}{reference.name} is public already; add --public, or name another repository")
        if _is_published(api, version, reference):
            return False
        commit = _commit(api, version, reference, files)
        api.create_tag(reference.name, tag=version.tag, revision=commit, exist_ok=True)
        # another process may have set the tag before
        _is_published(api, version, reference)
    return True


def _is_published(api: "HfApi", version: HubVersion, reference: HubReference) -> bool:
    """Return whether the version's tag is there.

    Raises:
        UserError: when it is there for another model.
    """
    if version.tag not in {tag.name for tag in api.list_repo_refs(reference.name).tags}:
        return False
    manifest = api.get_paths_info(reference.name, [MANIFEST], revision=version.tag)
    ours = hash_as_git(Path(version.uri, MANIFEST).read_bytes())
    if [getattr(entry, "blob_id", None) for entry in manifest] != [ours]:
        raise UserError(
            f"{SCHEME}{reference.name}@{version.tag} is another model; publish this registry's in another repository"
        )
    return True


def _commit(api: "HfApi", version: HubVersion, reference: HubReference, files: Sequence[str]) -> str:
    """Replace the files of the repository by those of a version; return the commit's hash.

    Raises:
        UserError: when the repository holds something else than a version of a model.
    """
    from huggingface_hub import CommitOperationDelete

    present = set(api.list_repo_files(reference.name)) - {ATTRIBUTES}
    if present - {README} and MANIFEST not in present:
        raise UserError(f"{SCHEME}{reference.name} holds files of something else; name another repository")
    with ExitStack() as stack:
        additions = list(_add(version, files, stack))
        outdated = [CommitOperationDelete(path) for path in sorted(present - {README, *files})]
        message = f"Version {version.number}"
        return str(api.create_commit(reference.name, [*outdated, *additions], commit_message=message).oid)


def _add(version: HubVersion, files: Sequence[str], stack: ExitStack) -> Iterator["CommitOperationAdd"]:
    """Yield the additions of a commit; a file that is open goes by the Hub's HTTP API, not by Xet's."""
    from huggingface_hub import CommitOperationAdd

    yield CommitOperationAdd(README, version.readme.encode())
    for name in files:
        file = Path(version.uri, name).open("rb")  # noqa: SIM115 - the stack closes it
        yield CommitOperationAdd(name, stack.enter_context(file))
