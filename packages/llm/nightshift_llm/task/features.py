"""The features of language models: the token ids of each text, computed once."""

from dataclasses import dataclass
from datetime import date
from functools import cached_property

import pandas as pd

from nightshift import storage
from nightshift.contracts import tables
from nightshift.contracts.tables import Partition
from nightshift.runtime.step import log
from nightshift.tasks.base import features as base
from nightshift.tasks.base.features import FeatureDetails, FeatureSetup
from nightshift_llm.config import LanguageConfig
from nightshift_llm.task import documents
from nightshift_llm.task.tokens import ByteTokenizer, load_tokenizer

CARRIED = ("source", "license", "group")  # where the use case has them


@dataclass(frozen=True)
class DocumentFeatures(base.DailyFeatures):
    """The texts of each day as tokens.

    Columns: `event_id`, `event_time`, what is carried, `content` (hash of the tokens), `tokens` (numbers, little-endian
    int32, `start` first, as bytes) and `size` (bytes that the tokens stand for).
    """

    setup: FeatureSetup[LanguageConfig]
    tokenizer: ByteTokenizer

    def uri(self, day: date) -> str:
        made_from = [*self.tokenizer.key, self._columns, self.setup.events.partition(day).sha256]
        key = storage.fingerprint(made_from)
        return tables.partition_uri(self.setup.lake, self.setup.config.name, "features", day, key)

    def write(self, missing: dict[date, str]) -> dict[date, Partition]:
        return {day: self._write_day(day, uri) for day, uri in missing.items()}

    def details(self, _: list[Partition]) -> FeatureDetails:
        seen = documents.describe_preprocessing(self.setup.config.task, self.tokenizer)
        return FeatureDetails({"seen": seen.feature_settings})

    @cached_property
    def _columns(self) -> list[str]:
        carried = [name for name in CARRIED if name in self.setup.config.columns.roles]
        return ["event_id", "event_time", *carried]

    def _write_day(self, day: date, uri: str) -> Partition:
        texts = storage.read_frame(self.setup.events.partition(day).uri, [*self._columns, "text"])
        documents = self.tokenizer.encode(texts["text"].tolist())
        contents = [document.astype("<i4").tobytes() for document in documents]
        rows = texts[self._columns].assign(
            content=pd.Series(map(storage.sha256, contents), dtype=str),
            tokens=pd.Series(contents, dtype=object),
            size=[self.tokenizer.count_bytes(document) for document in documents],
            read=[self.tokenizer.count_bytes(document % self.tokenizer.vocabulary) for document in documents],
        )
        log.info("features: %s, %d rows", day, len(rows))
        return tables.write_partition(uri, day, rows, {})


class FeaturesTask(base.FeaturesTask):
    """The token ids of each text."""

    def features(self, setup: FeatureSetup[LanguageConfig]) -> DocumentFeatures:
        return DocumentFeatures(setup, load_tokenizer(setup.config.task))
