"""What a shard of the features step leaves for the step that joins them."""

from datetime import date

from pydantic import Field

from nightshift.contracts.artifact import Artifact


class FeatureShard(Artifact):
    """What all shards of a run have to agree on: they write the files, and no shard knows of another."""

    missing: dict[date, str] = Field(description="day -> URI of the partition that they make together")
    known: dict[str, dict[date, str]] = Field(
        {}, description="feature -> day -> URI of a partition that has it, so that nobody computes it"
    )
