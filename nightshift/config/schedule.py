"""When the pipelines of a use case start by the clock."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from nightshift.config.section import ConfigSection

FIELDS = {"minute": (0, 59), "hour": (0, 23), "day of the month": (1, 31), "month": (1, 12), "day of the week": (0, 6)}
ITEM = re.compile(r"(?:\*|(\d+)-(\d+))(?:/[1-9]\d*)?|(\d+)")


def _check_cron(cron: str) -> str:
    parts = cron.split()
    if len(parts) != len(FIELDS):
        raise ValueError(f"takes five fields in UTC, {', '.join(FIELDS)}, such as '0 2 * * *'")
    for (name, allowed), part in zip(FIELDS.items(), parts, strict=True):
        for item in part.split(","):
            _check_item(name, item, *allowed)
    return " ".join(parts)


def _check_item(name: str, item: str, low: int, high: int) -> None:
    match = ITEM.fullmatch(item)
    numbers = [int(number) for number in match.groups() if number] if match else [-1]
    if numbers != sorted(numbers) or not all(low <= number <= high for number in numbers):
        raise ValueError(f"the {name} is {item!r}; it takes {low} to {high}, ranges (1-5), steps (*/2) and lists (1,2)")


Cron = Annotated[str, AfterValidator(_check_cron)]


class Schedule(ConfigSection):
    """When each pipeline starts by the clock: cron of five fields, UTC."""

    ingestion: Cron = Field("0 1 * * *", description="fetches the last complete UTC day")
    training: Cron = Field("0 2 * * *", description="only where controller.retrain is daily")
    monitoring: Cron = Field("0 6 * * *", description="on Kubeflow; on Airflow it follows ingestion")
    release: Cron = Field("0 7 * * *", description="only where release.gradual is true; as often as it is to be judged")
