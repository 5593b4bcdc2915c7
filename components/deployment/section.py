"""What deployment shows on the page of its run: which version is live, why, and how to call it."""

import json

from nightshift.contracts.deployment import Deployment
from nightshift.contracts.section import Block, Code, Row, Section, SectionOutcome, TableBlock, TableColumn

WEIGHT = 10


def build(record: Deployment) -> Section:
    """Return the section of a deployment.

    Args:
        record: `deployment.json`.
    """
    columns = [TableColumn(title="What"), TableColumn(title="Which", format="code")]
    blocks: list[Block] = [TableBlock(title="Versions", columns=columns, rows=_list_facts(record))]
    if record.curl:
        blocks.append(Code(title="Send a request", text=record.curl, is_key=True))
    if record.engine:
        blocks.append(Code(title="Generate text", text=_completion(record), is_key=True))
    return Section(title="Release", weight=WEIGHT, outcome=_outcome(record), blocks=blocks)


def _outcome(record: Deployment) -> SectionOutcome:
    version, champion, decision = record.version, record.champion_version, record.decision
    # without an endpoint nothing serves it from here
    role = "live" if record.endpoint else "the champion"
    stays = f"version {champion} stays {role}" if champion else "there is no champion"
    headline = {
        "promoted": f"Version {version} is {role}",
        "kept": f"Version {champion} stays {role}; version {version} was not promoted",
        "waiting": f"Version {version} waits for a person's approval; {stays}",
        "registered": f"Version {version} was registered, not promoted; there is no champion",
    }[decision]
    tone = "bad" if record.caveats else "good" if decision == "promoted" else "neutral"
    first = " ".join([*record.caveats, headline])
    return SectionOutcome(headline=first, label=decision, tone=tone, reasons=record.reasons)


def _completion(record: Deployment) -> str:
    body = json.dumps({"model": record.model, "prompt": "The", "max_tokens": 32})
    return f"curl -s {record.engine}/completions -H 'content-type: application/json' -d '{body}'"


def _list_facts(record: Deployment) -> list[Row]:
    named = {
        "new version": record.version,
        "live version": record.champion_version,
        "live before this run": record.previous_champion_version,
        "endpoint": record.endpoint,
        "engine": record.engine,
        "registry": record.registry,
    }
    if record.engine is None:  # as of most models
        del named["engine"]
    return [Row(cells=[name, value]) for name, value in named.items()]
