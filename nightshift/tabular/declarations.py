"""What the declared features of a use case need of its events: the entities, and the columns kept of each event."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from nightshift.contracts.preprocessing import Feature, FeatureSpec
from nightshift.data.aggregations import Aggregation, Reads, aggregations
from nightshift.tabular.windows import DAY

NUMBER_DECIMALS = 4  # at which numbers other than amounts are summed


@dataclass(frozen=True)
class EntityGroup:
    """The features of one entity.

    Attributes:
        entity: the columns by whose values events belong together.
        features: in the order of the inputs.
        delay: by how many microseconds windows of labels end before the event.
    """

    entity: tuple[str, ...]
    features: tuple[Feature, ...]
    delay: int

    @property
    def name(self) -> str:
        """What the entity is called."""
        return "_".join(self.entity)

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The columns that are summed, or of which there is a largest value or the like."""
        return self._columns(Reads.NUMBER)

    @cached_property
    def square_columns(self) -> tuple[str, ...]:
        """Those of `numbers` whose squares are summed."""
        names = (feature.column for feature in self.features if function(feature).squares)
        return tuple(dict.fromkeys(name for name in names if name))

    @cached_property
    def categories(self) -> tuple[str, ...]:
        """The columns whose different values are counted."""
        return self._columns(Reads.VALUE)

    @cached_property
    def reads_labels(self) -> bool:
        """Whether labels are counted."""
        return any(feature.reads_labels for feature in self.features)

    @property
    def columns(self) -> list[str]:
        """The columns of events that the features are made of, without the time."""
        labels = ["label"] if any(function(feature).reads is Reads.LABEL for feature in self.features) else []
        return list(dict.fromkeys([*self.entity, *self.numbers, *self.categories, *labels]))

    def lag(self, feature: Feature) -> int:
        """Return by how many microseconds a feature's window ends before the event."""
        return feature.offset + (self.delay if feature.reads_labels else 0)

    def reach(self, feature: Feature) -> int:
        """Return how many microseconds before the event a feature's window begins."""
        return self.lag(feature) + feature.length

    @cached_property
    def longest_reach(self) -> int:
        """How many microseconds before the event the first window begins."""
        return max(map(self.reach, self.features))

    @cached_property
    def shortest_lag(self) -> int:
        """How many microseconds before the event the last window ends."""
        return min(map(self.lag, self.features))

    def _columns(self, reads: Reads) -> tuple[str, ...]:
        names = (feature.column for feature in self.features if function(feature).reads is reads)
        return tuple(dict.fromkeys(name for name in names if name))


def function(feature: Feature) -> Aggregation:
    """Return the function of a feature."""
    return aggregations()[feature.function]


def label_delay(spec: FeatureSpec) -> int:
    """Return by how many microseconds windows of labels end before the event.

    Without a label delay they still end before it: its own label, and those of its time, are what is to be predicted.
    One microsecond, the unit of time, is "strictly before".
    """
    return max(spec.label_delay_days * DAY, 1)


def entity_groups(spec: FeatureSpec) -> list[EntityGroup]:
    """Return the features by entity, in the order of the entities' first features."""
    entities = dict.fromkeys(tuple(feature.entity) for feature in spec.features)
    return [
        EntityGroup(
            entity, tuple(feature for feature in spec.features if tuple(feature.entity) == entity), label_delay(spec)
        )
        for entity in entities
    ]


def state_columns(groups: Sequence[EntityGroup]) -> tuple[list[str], list[str]]:
    """Return what is kept of an event: the columns of identifiers and categories, and those of numbers."""
    values = dict.fromkeys(name for group in groups for name in (*group.entity, *group.categories))
    numbers = dict.fromkeys(name for group in groups for name in group.numbers)
    return list(values), list(numbers)


def decimals(spec: FeatureSpec, column: str) -> int:
    """Return at how many decimals a column's numbers are summed."""
    return spec.amount_decimals if column == "amount" else NUMBER_DECIMALS


def numeric_inputs(spec: FeatureSpec, further: Sequence[str]) -> list[str]:
    """Return the names of the numeric model inputs, in order.

    Args:
        spec: what is declared.
        further: the user's numeric columns.
    """
    amount = ["amount"] if spec.has_amount else []
    return [*amount, *(part.value for part in spec.calendar), *(feature.name for feature in spec.features), *further]


def nullable_inputs(spec: FeatureSpec, further: Sequence[str]) -> list[str]:
    """Return the names of the numeric model inputs that may be missing; likewise."""
    return [*(feature.name for feature in spec.features if feature.nullable), *further]
