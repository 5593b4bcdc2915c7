"""The mistakes that a model of texts is surest of."""

from nightshift.classification import tokens
from nightshift.contracts.section import Column, Row, Table
from nightshift.tasks.classification.mistakes import Answers

SHOWN = 20


def table(answers: Answers, tokenizer: bytes) -> Table | None:
    """Return the mistakes, with the texts where a tokenizer's file can spell them; None without a mistake."""
    rows = list(answers.surest(SHOWN))
    if not rows:
        return None
    columns = [Column(title="Row"), Column(title="Class"), Column(title="Taken for")]
    columns += [Column(title="Confidence", format="percent"), Column(title="What the model saw")]
    spelled = tokens.decoded(tokenizer, answers.inputs[rows])
    cells = [
        Row(cells=[*answers.names(row), float(answers.scores[row].max()), text])
        for row, text in zip(rows, spelled, strict=True)
    ]
    return Table(title="The surest mistakes", columns=columns, rows=cells, shown=5)
