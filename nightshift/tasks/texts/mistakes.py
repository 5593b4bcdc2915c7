"""The mistakes that a model of texts is surest of."""

from nightshift.contracts.section import Row, TableBlock, TableColumn
from nightshift.items import tokens
from nightshift.tasks.classification.mistakes import Answers

SHOWN = 20


def table(answers: Answers, tokenizer: bytes) -> TableBlock | None:
    """Return the mistakes, with the texts where a tokenizer's file can spell them; None without a mistake."""
    rows = list(answers.surest(SHOWN))
    if not rows:
        return None
    columns = [TableColumn(title="Row"), TableColumn(title="Class"), TableColumn(title="Taken for")]
    columns += [TableColumn(title="Confidence", format="percent"), TableColumn(title="What the model saw")]
    spelled = tokens.decode_texts(tokenizer, answers.inputs[rows])
    cells = [
        Row(cells=[*answers.names(row), float(answers.confidence[row]), text])
        for row, text in zip(rows, spelled, strict=True)
    ]
    return TableBlock(title="The surest mistakes", columns=columns, rows=cells, shown=5)
