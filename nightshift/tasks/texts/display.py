"""How a report shows texts."""

import pandas as pd

from nightshift.contracts import package
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.section import Block, Row, TableBlock, TableColumn
from nightshift.items import tokens
from nightshift.items.tokens import Tokens
from nightshift.tasks.classification.mistakes import Answers
from nightshift.tasks.texts.mistakes import table as mistaken


def show(uri: str, model: ModelPackage, title: str, rows: pd.DataFrame, numbers: Tokens) -> TableBlock:
    """Show what some texts were taken for, as the model's tokenizer spells them.

    Args:
        uri: folder of the model.
        model: its manifest.
        title: of the table.
        rows: `event_id` and `predicted`, n rows.
        numbers: of their tokens, (n, length).
    """
    spelled = tokens.decode_texts(package.read_tokenizer(uri, model), numbers)
    cells = [
        Row(cells=[str(event), name, text])
        for event, name, text in zip(rows["event_id"], rows["predicted"], spelled, strict=True)
    ]
    headings = [TableColumn(title=heading) for heading in ("Row", "Taken for", "What the model saw")]
    return TableBlock(title=title, columns=headings, rows=cells)


def mistakes(uri: str, model: ModelPackage, answers: Answers) -> Block | None:
    """Show the surest mistakes of a model, as its tokenizer spells the texts; None without a mistake."""
    return mistaken(answers, package.read_tokenizer(uri, model))
