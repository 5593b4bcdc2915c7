"""Features in shards of a task that says nothing of them: by days."""

from dataclasses import dataclass, field
from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from nightshift.contracts.tables import Partition
from nightshift.tasks.base.features import DailyFeatures, FeatureDetails


@dataclass(frozen=True)
class DailyNotes(DailyFeatures):
    """Features that only say which days they were asked for."""

    requests: list[list[date]] = field(default_factory=list)

    def uri(self, day: date) -> str:
        return f"{day}.parquet"

    def write(self, missing: dict[date, str]) -> dict[date, Partition]:
        self.requests.append(sorted(missing))
        return {day: Partition(str(day), uri, 0, "") for day, uri in missing.items()}

    def details(self, parts: list[Partition]) -> FeatureDetails:
        return FeatureDetails({})


@given(st.integers(0, 30), st.integers(1, 8))
def test_every_missing_day_is_in_one_shard_and_those_of_a_shard_follow_each_other(days: int, count: int) -> None:
    features = DailyNotes()
    missing = {day: features.uri(day) for day in (date(2025, 6, 1) + timedelta(days=number) for number in range(days))}
    for number in range(count):
        assert features.write_shard(missing, number, count).missing == missing

    assert [day for shard in features.requests for day in shard] == [*missing]
    assert features.join({}, []) == {}
    assert len(features.requests) <= count
