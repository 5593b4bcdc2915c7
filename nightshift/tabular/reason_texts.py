"""Texts of reasons: what an input of a row is, in words, from the declaration of the features."""

from collections.abc import Callable, Mapping

from nightshift.contracts.preprocessing import Calendar, Feature, FeatureSpec, Inputs, TabularPreprocessing

SECONDS = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

Values = Mapping[str, float | str | None]  # of a row's inputs; None where a number is missing or a category is new


class ReasonTexts:
    """Says in words what an input of a row is.

    Args:
        inputs: of the model; features are described as they are declared.
    """

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._spec = inputs.features if isinstance(inputs, TabularPreprocessing) else None
        self._features = {feature.name: feature for feature in self._spec.features} if self._spec else {}

    def write(self, name: str, values: Values) -> str:
        """Return a text, such as `amount is 620, 6.2 times this card's mean of 30 days`.

        Args:
            name: of the input.
            values: of all inputs of the row.
        """
        value = values[name]
        if isinstance(value, str):
            return f"{name} is {value!r}"
        if value is None:
            return self._write_missing(name)
        if name in self._features:
            return write_feature(self._features[name], value)
        if self._spec and name in self._spec.calendar:
            return write_calendar(Calendar(name), value)
        mean = find_mean(self._spec, name) if self._spec else None
        usual = values.get(mean.name) if mean else None
        if mean and isinstance(usual, float) and usual > 0 and value > 0:
            times = f"{write_number(value / usual, 2)} times {_possessive(mean)} mean of {_span(mean)}"
            return f"{name} is {write_number(value)}, {times}"
        return f"{name} is {write_number(value)}"

    def _write_missing(self, name: str) -> str:
        if name in self._inputs.categorical:
            return f"{name} has a value that no training row had"
        if feature := self._features.get(name):
            return f"{name} is missing: {_entity(feature)} has too few earlier events in {_span(feature)}"
        return f"{name} is missing"


def find_mean(spec: FeatureSpec, column: str) -> Feature | None:
    """Return the mean of a column over the longest window, the first declared of equals; None without one."""
    means = [feature for feature in spec.features if (feature.function, feature.column) == ("mean", column)]
    return max(means, key=lambda feature: feature.length, default=None)


def write_calendar(part: Calendar, value: float) -> str:
    """Return what a clock or a calendar shows."""
    if part is Calendar.HOUR:
        return f"it is between {value:.0f}:00 and {value:.0f}:59"
    if part is Calendar.DAY_OF_WEEK:
        return f"it is a {WEEKDAYS[int(value) % len(WEEKDAYS)]}"
    words = {Calendar.IS_WEEKEND: "a weekend", Calendar.IS_NIGHT: "night", Calendar.IS_MONTH_END: "the end of a month"}
    return f"it is {'' if value else 'not '}{words[part]}"


def write_feature(feature: Feature, value: float) -> str:
    """Return what a feature says of the events of its entity."""
    if write := TEXTS.get(feature.function):
        return write(feature, value)
    return f"{feature.name} is {write_number(value)}"


def _write_count(feature: Feature, value: float) -> str:
    return f"{_entity(feature)} has {_plural(value, 'event')} in {_span(feature)}"


def _write_statistic(words: str) -> Callable[[Feature, float], str]:
    return lambda feature, value: (
        f"{_possessive(feature)} {words} {feature.column} in {_span(feature)} is {write_number(value)}"
    )


def _write_distinct(feature: Feature, value: float) -> str:
    return f"{_entity(feature)} has {_plural(value, 'different value')} of {feature.column} in {_span(feature)}"


def _write_last(feature: Feature, value: float) -> str:
    return f"{_possessive(feature)} last event was {write_duration(value)} ago"


def _write_previous(feature: Feature, value: float) -> str:
    return f"{_entity(feature)} has had {_plural(feature.argument, 'event')} within {write_duration(value)}"


def _write_decayed(feature: Feature, value: float) -> str:
    half_life = write_duration(feature.argument / 1e6)
    return f"{_entity(feature)} has {write_number(value)} recent events, by weights that halve every {half_life}"


def _write_positives(feature: Feature, value: float) -> str:
    return f"{_entity(feature)} has {_plural(value, 'positive')} in {_span(feature)}"


def _write_rate(feature: Feature, value: float) -> str:
    return f"{write_number(100 * value, 2)}% of {_possessive(feature)} events in {_span(feature)} are positive"


def _write_ratio(feature: Feature, value: float) -> str:
    return f"{feature.column} is {write_number(value, 2)} times {_possessive(feature)} mean of {_span(feature)}"


def _write_difference(feature: Feature, value: float) -> str:
    return f"{feature.column} is {_beside(value)} {_possessive(feature)} mean of {_span(feature)}"


def _write_zscore(feature: Feature, value: float) -> str:
    side = "above" if value >= 0 else "below"
    unit = f"{write_number(abs(value), 2)} standard deviations {side}"
    return f"{feature.column} is {unit} {_possessive(feature)} mean of {_span(feature)}"


TEXTS: Mapping[str, Callable[[Feature, float], str]] = {
    "count": _write_count,
    "sum": _write_statistic("sum of"),
    "mean": _write_statistic("mean"),
    "std": _write_statistic("standard deviation of"),
    "min": _write_statistic("least"),
    "max": _write_statistic("greatest"),
    "first": _write_statistic("first"),
    "last": _write_statistic("last"),
    "distinct": _write_distinct,
    "seconds_since_last": _write_last,
    "seconds_since_previous": _write_previous,
    "decayed_count": _write_decayed,
    "positive_count": _write_positives,
    "positive_rate": _write_rate,
    "ratio": _write_ratio,
    "difference": _write_difference,
    "zscore": _write_zscore,
}


def _entity(feature: Feature) -> str:
    kind = "combination of " if len(feature.entity) > 1 else ""
    return f"this {kind}{' and '.join(feature.entity)}"


def _possessive(feature: Feature) -> str:
    return f"{_entity(feature)}'s"


def _span(feature: Feature) -> str:
    """Return a window in words: `30 days`, `the last 10 events of 30 days`, `7 days until 1 day before`."""
    length = write_duration(feature.length / 1e6)
    if feature.reads_labels:
        return f"{length} whose labels are known"
    span = f"the last {feature.newest} events of {length}" if feature.newest else length
    return f"{span} until {write_duration(feature.offset / 1e6)} before" if feature.offset else span


def _beside(value: float) -> str:
    return f"{write_number(abs(value))} {'above' if value >= 0 else 'below'}"


def _plural(value: float, noun: str) -> str:
    return f"{write_number(value)} {noun}{'' if value == 1 else 's'}"


def write_duration(seconds: float) -> str:
    """Return a time in the largest unit of which it has one: `35 seconds`, `2.5 hours`, `30 days`."""
    size, unit = next((entry for entry in SECONDS if seconds >= entry[0]), SECONDS[-1])
    return _plural(float(write_number(seconds / size, 2).replace(",", "")), unit)


def write_number(value: float, digits: int = 4) -> str:
    """Return a number with so many digits; all before the decimal point are kept."""
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"
