"""Prints a gateway's ledger as CSV: `python -m nightshift_llm.gateway.report --ledger FILE`."""

import csv
import sys
from dataclasses import astuple, fields

from nightshift.runtime.context import StepContext
from nightshift.runtime.flags import StepParser
from nightshift.runtime.step import run
from nightshift_llm.gateway.ledger_file import LedgerRow, read_report


def parser() -> StepParser:
    """Return the flags."""
    flags = StepParser("report", "Print the usage of API keys by day and version as CSV.")
    flags.prog = "python -m nightshift_llm.gateway.report"
    flags.add_argument("--ledger", required=True, help="SQLite file of the ledger; its gateway may be running")
    return flags


def body(context: StepContext) -> None:
    """Print the ledger."""
    usage = read_report(context.args.ledger)
    csv.writer(sys.stdout).writerows([[field.name for field in fields(LedgerRow)], *map(astuple, usage)])


if __name__ == "__main__":
    run(parser(), body)
