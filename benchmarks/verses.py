"""Writes a use case of real texts: which testament a verse of the King James Bible is from.

`python -m benchmarks.verses FOLDER WEIGHTS`: verses come from the program `bible` of Debian's packages bible-kjv and
bible-kjv-text; WEIGHTS is a folder with config.json, model.safetensors and tokenizer.json, such as all-MiniLM-L6-v2's.
Whole chapters are dealt out to the days and are the groups, so that no chapter is both trained and tested on.
"""

import re
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

FIRST, DAYS = date(2024, 1, 1), 49
FIRST_OF_NEW = "Mat"
LINE = re.compile(r"(\w+?)(\d+):(\d+) (.*)")
LENGTH = 64


def verses() -> pd.DataFrame:
    """Return all verses in their order: `chapter`, `text`, `label`."""
    printed = subprocess.run(["bible", "-f", "Gen1:1-Rev22:21"], capture_output=True, text=True, check=True).stdout
    matches = [match.groups() for match in map(LINE.fullmatch, printed.splitlines()) if match]
    books = [book for book, *_ in matches]
    first = next(number for number, book in enumerate(books) if book.startswith(FIRST_OF_NEW))
    labels = np.where(np.arange(len(matches)) < first, "old", "new")
    chapters, texts = [f"{book} {chapter}" for book, chapter, *_ in matches], [text for *_, text in matches]
    return pd.DataFrame({"chapter": chapters, "text": texts, "label": labels})


def deal_chapters(rows: pd.DataFrame, share: float) -> pd.DataFrame:
    """Give each of a share of the chapters a day, and each of their verses a second of it."""
    chapters = np.random.default_rng(0).permutation(rows["chapter"].unique())
    days = {chapter: number % DAYS for number, chapter in enumerate(chapters[: int(share * len(chapters))])}
    kept = rows[rows["chapter"].isin(days)].reset_index(drop=True)
    day = kept["chapter"].map(days)
    time = pd.Timestamp(FIRST) + pd.to_timedelta(day, unit="D") + pd.to_timedelta(kept.index % 86_400, unit="s")
    return kept.assign(time=time, verse_id=kept.index).sort_values("time")


def config(weights: Path) -> dict[str, object]:
    """Return the use case."""
    pretrained = {"pretrained": str(weights), "threads": 2}
    tuned = {"learning_rate": 0.00005, "epochs": 2, "batch_size": 32}
    candidates = {
        "words": {"kind": "tfidf", "parameters": {"C": 10.0}},
        "frozen": {"kind": "bert", "parameters": {**pretrained, "frozen": True}},
        "tuned": {"kind": "bert", "parameters": {**pretrained, **tuned}},
        "adapted": {"kind": "bert", "parameters": {**pretrained, **tuned, "lora_rank": 8, "learning_rate": 0.001}},
    }
    columns = {"event_id": "verse_id", "event_time": "time", "text": "text", "label": "label", "group": "chapter"}
    return {
        "name": "verses",
        "label_delay_days": 0,
        "source": {"files": "{date}.parquet"},
        "columns": columns,
        "protocol": {"train_days": 35, "test_days": 7},
        "task": {
            "kind": "text-classification",
            "classes": ["old", "new"],
            "length": LENGTH,
            "tokenizer": str(weights / "tokenizer.json"),
            "candidates": candidates,
        },
        "evaluation": {"min_accuracy": 0.75},
    }


def main(folder: str, weights: str, share: str = "0.1") -> None:
    """Write the days and the config, and print the next command."""
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    rows = deal_chapters(verses(), float(share))
    for day, day_rows in rows.groupby(rows["time"].dt.date):
        day_rows.to_parquet(root / f"{day}.parquet", index=False)
    (root / "verses.yaml").write_text(yaml.safe_dump(config(Path(weights).resolve())))
    last = FIRST + timedelta(days=DAYS - 1)
    print(f"{len(rows)} verses of {rows['chapter'].nunique()} chapters, {(rows['label'] == 'new').mean():.1%} new")
    print(f"nightshift run --config {root}/verses.yaml --data {root} --date {last} --target register-only")


if __name__ == "__main__":
    main(*sys.argv[1:])
