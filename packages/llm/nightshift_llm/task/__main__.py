"""Trains a tokenizer on ingested texts, for `task.tokenizer`.

python -m nightshift_llm.task --events runs/latest/ingestion/events --tokenizer tokenizer.json
"""

import argparse
import sys
from collections.abc import Sequence

from nightshift import storage
from nightshift.contracts import tables
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.runtime.step import USER_ERROR
from nightshift_llm.task import tokens


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the texts of an events table and write a `tokenizer.json`; return the exit code."""
    parser = argparse.ArgumentParser("python -m nightshift_llm.task", description="Train a tokenizer on texts.")
    parser.add_argument("--events", required=True, help="URI of the events manifest that ingestion wrote")
    parser.add_argument("--tokenizer", required=True, help="URI of the tokenizer.json to write")
    parser.add_argument("--vocabulary", type=int, default=8192, help="vocabulary size in tokens (default: 8192)")
    parser.add_argument("--start", default="<|endoftext|>", help="beginning-of-text token (default: <|endoftext|>)")
    args = parser.parse_args(arguments)
    try:
        parts = tables.read_table(args.events).partitions
        texts = (text for part in parts for text in storage.read_frame(part.uri, ["text"])["text"])
        storage.write_bytes(args.tokenizer, tokens.train_tokenizer(texts, args.vocabulary, args.start))
    except (UserError, UnavailableError) as error:
        print(error, file=sys.stderr)
        return USER_ERROR if isinstance(error, UserError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
