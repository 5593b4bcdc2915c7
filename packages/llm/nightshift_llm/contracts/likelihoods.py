"""`likelihoods.json`: how well a language model predicts documents, and which file and documents these were."""

from pydantic import Field

from nightshift.contracts.artifact import Artifact

FILE = "likelihoods.json"


class Likelihoods(Artifact):
    """Bits and bytes by document; whoever goes on later knows by the hashes whether they are still those."""

    model_sha256: str = Field(description="hash of the model's file")
    documents_sha256: str = Field(description="hash of the documents, in their order")
    context: int = Field(description="tokens that the model sees at most")
    bits: list[float] = Field(description="negative log-likelihood of each document in base 2")
    bytes: list[int] = Field(description="length of each document in UTF-8, less that of its first token")

    @property
    def bits_per_byte(self) -> float:
        """Of all documents together."""
        return sum(self.bits) / sum(self.bytes)
