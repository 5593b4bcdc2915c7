"""What a registry in a folder keeps of a model: a record of each version, and the version with the alias."""

from pydantic import Field

from nightshift.contracts.artifact import Artifact


class RegisteredVersion(Artifact):
    """A version of a model in a folder's registry, beside the folder of its files; its number is the file's name."""

    sha256: str = Field(description="identity of the model, as in its `model.json`")
    tags: dict[str, str] = Field(
        description="lineage, and who registered it and when; of a removed version also who removed it, and when"
    )
    metrics: dict[str, float] = Field(description="what the gates have measured, and what the run has spent")

    @property
    def is_removed(self) -> bool:
        """Whether its files are gone, or about to be."""
        return "removed_at" in self.tags


class Aliases(Artifact):
    """The names of versions, for people and other tools."""

    champion: int = Field(description="the live version, which mirrors the release record")
