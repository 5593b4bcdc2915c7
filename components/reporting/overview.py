"""The page on one screen, in Markdown: what Kubeflow shows of a run."""

from components.reporting.summary import Summary
from nightshift.contracts.section import Page, TableBlock
from nightshift.stats.figures import format_value
from nightshift.tasks.markdown import escape, items, line, section, strong, table


def render(page: Page, summary: Summary) -> str:
    """Write the overview of a run: the headline, what was decided, the key tables, what the steps took."""
    headline, outcomes, code = page.headline, page.outcomes, summary.code_version
    paragraphs = [
        [f"# {escape(f'{page.use_case}: {headline.headline}')}"],
        [line(f"Run {page.run}, logical date {summary.logical_date}, on {summary.device}, code {code}.")],
        items(headline.reasons),
        items(
            line(f"{title}: ", strong(outcome.label), f". {' '.join(outcome.reasons)}".rstrip())
            for title, outcome in outcomes
        ),
        *[[section(block.title, _lines(block))] for block in page.key_tables],
    ]
    return "\n\n".join("\n".join(lines) for lines in paragraphs if lines) + "\n"


def _lines(block: TableBlock) -> list[str]:
    columns = [column.title for column in block.columns]
    cells = [
        [
            f"{format_value(cell, column.format)} {'' if number else f'({row.tag})' if row.tag else ''}".strip()
            for number, (cell, column) in enumerate(zip(row.cells, block.columns, strict=True))
        ]
        for row in block.rows
    ]
    return table(tuple(columns), [tuple(row) for row in cells])
