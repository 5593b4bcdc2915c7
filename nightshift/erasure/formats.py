"""What a file says of an entity, by its format: rows of Parquet, words of text, also compressed, or bytes."""

import gzip
from typing import Protocol

from nightshift.erasure import tables, texts
from nightshift.erasure.subject import DataSubject, is_distinctive


class ErasableFormat(Protocol):
    """A format; both methods take a whole file."""

    def count(self, data: bytes, subject: DataSubject) -> int:
        """Return how often a file names an entity, or how many rows are its."""

    def without(self, data: bytes, subject: DataSubject) -> bytes | None:
        """Return a file without what names an entity; None where it cannot be taken out."""


class ParquetFormat:
    """Rows."""

    count = staticmethod(tables.count)
    without = staticmethod(tables.without)


class TextFormat:
    """Words of UTF-8; in anything else the bytes of the id."""

    def count(self, data: bytes, subject: DataSubject) -> int:
        """Return how often a file names an entity."""
        try:
            return texts.count(data.decode(), subject)
        except UnicodeDecodeError:
            words = [word for word in (subject.value, *subject.events) if is_distinctive(word)]
            return sum(data.count(word.encode()) for word in words)

    def without(self, data: bytes, subject: DataSubject) -> bytes | None:
        """Return a text without the words; None of bytes that are no text."""
        try:
            return texts.redact(data.decode(), subject).encode()
        except UnicodeDecodeError:
            return None


class GzipFormat:
    """A compressed text."""

    def count(self, data: bytes, subject: DataSubject) -> int:
        """Return how often a file names an entity."""
        return TEXT.count(gzip.decompress(data), subject)

    def without(self, data: bytes, subject: DataSubject) -> bytes | None:
        """Return the text without the words, compressed."""
        text = TEXT.without(gzip.decompress(data), subject)
        return None if text is None else gzip.compress(text, mtime=0)


PARQUET, TEXT, GZIP = ParquetFormat(), TextFormat(), GzipFormat()


def find(uri: str) -> ErasableFormat:
    """Return the format of a file, by its name."""
    suffixes: dict[str, ErasableFormat] = {".parquet": PARQUET, ".gz": GZIP}
    return next((kind for suffix, kind in suffixes.items() if uri.endswith(suffix)), TEXT)
