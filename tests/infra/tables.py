"""Writes the tables that are made from sources: `python -m tests.infra.tables` after changing what they show."""

import re
from pathlib import Path

from infra.terraform import INFRA
from tests.infra import charts
from tests.infra.checks import CLOUDS
from tests.infra.edges import here, needs
from tests.infra.edges.model import CHARTS
from tests.infra.edges.policy import ELSEWHERE

PAGE = INFRA.parent / "docs" / "guides" / "infrastructure.md"
_VARIABLE = re.compile(r'^variable "(\w+)" \{\n(.*?)^\}', re.MULTILINE | re.DOTALL)
_ATTRIBUTE = re.compile(r"^  (\w+) += (.*?)(?=^  \w|\Z)", re.MULTILINE | re.DOTALL)


def table(*rows: tuple[str, ...]) -> str:
    """A Markdown table; the first row is its head."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]]) + "\n"


def inputs(variables: str) -> str:
    """The variables in a file that `terraform fmt` has put into its form."""
    rows = [("name", "type", "default", "what it is")]
    for name, body in _VARIABLE.findall(variables):
        attributes = {key: value.strip() for key, value in _ATTRIBUTE.findall(body)}
        kind = attributes["type"].split("({")[0]
        default = attributes.get("default", "")
        shown = f"`{default}`" if "\n" not in default else "see `variables.tf`"
        rows.append((f"`{name}`", f"`{kind}`", shown if default else "required", attributes["description"].strip('"')))
    return table(*rows)


def looked_at() -> str:
    """The charts that are installed, and how many of the values we give them the version at hand does not know."""
    rows = [_held(chart) for chart in charts.CHARTS if "chart" in chart]
    return table(("chart", "installed", "values held against", "unknown values"), *rows)


def _held(chart: charts.Json) -> tuple[str, ...]:
    name, installed = chart["name"], f"`{chart['version']}`"
    if name in charts.NOT_AT_HAND:
        return name, installed, "not held against", ""
    at_hand = chart.get("looked_at")
    held = f"`{at_hand}`; {installed} not held against" if at_hand else installed
    return name, installed, held, str(len(charts.unknown(chart)))


def calls() -> str:
    """The calls between pods, but for those that every pod makes, and what keeps them from going through."""
    rows: dict[tuple[str, str, str], set[str]] = {}
    for cloud in here.CLOUDS:
        cluster = here.standing(cloud)
        for need in needs.needs(cluster, cloud):
            if "/" in need.server and need.server != "kube-system/dns":
                client = "the API server" if need.client == ELSEWHERE else f"`{need.client}`"
                problems = rows.setdefault((client, f"`{need.server}:{need.port}`", need.why), set())
                problems.update(needs.broken(cluster, need))
    shown = [(*row, "; ".join(sorted(problems)) or "nothing") for row, problems in sorted(rows.items())]
    return table(("caller", "calls", "as said by", "kept from it by"), *shown)


def fill(text: str, name: str, content: str) -> str:
    """Put a table between the marks `<!-- name -->` and `<!-- /name -->` of a page."""
    marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    assert marks.search(text), f"no <!-- {name} --> ... <!-- /{name} -->"
    return marks.sub(lambda match: match[1] + content + match[2], text)


def pages() -> dict[Path, str]:
    """Every page that holds such a table, as it should be."""
    tables = {INFRA / cloud / "README.md": inputs((INFRA / cloud / "variables.tf").read_text()) for cloud in CLOUDS}
    filled = {path: fill(path.read_text(), "inputs", content) for path, content in tables.items()}
    text = PAGE.read_text()
    if charts.REAL.exists():
        text = fill(text, "charts", looked_at())
    if CHARTS.exists():  # without it, what the charts make is not known
        text = fill(text, "calls", calls())
    return filled | {PAGE: text}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
