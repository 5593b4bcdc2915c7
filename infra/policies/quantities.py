"""Parsers of values with units: durations in seconds, sizes in bytes, CPUs in cores."""

import re

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
# Go knows no day; Prometheus does
_DAYS = {"d": 86400, "w": 604800, "y": 31536000}
_BYTES = {"m": 1e-3, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15} | {
    f"{prefix}i": 1024.0**power for power, prefix in enumerate("KMGTP", start=1)
}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([A-Za-zµ]*)")


def number(value: object) -> float:
    """Return a plain number.

    Raises:
        ValueError: when it is not a number.
    """
    return float(str(value))


def seconds(value: object) -> float:
    """Return a duration of Go or of Google Cloud, such as 1h30m or 7776000s, in seconds.

    Raises:
        ValueError: when it is not a duration, has no unit, or a unit that Go lacks, such as days.
    """
    return _sum(value, _SECONDS)


def duration(value: object) -> float:
    """Return a duration that may have days, as in Prometheus and its charts, in seconds.

    Raises:
        ValueError: when it is not a duration.
    """
    return _sum(value, _SECONDS | _DAYS)


def size(value: object) -> float:
    """Return a quantity of Kubernetes, such as 8Gi, in bytes.

    Raises:
        ValueError: when it is not a quantity.
    """
    match = _NUMBER.fullmatch(str(value))
    if not match or match[2] not in _BYTES:
        raise ValueError(f"{value!r} is not a quantity such as 512Mi")
    return float(match[1]) * _BYTES[match[2]]


def cores(value: object) -> float:
    """Return a quantity of CPUs, such as 500m, in cores.

    Raises:
        ValueError: when it is not a quantity.
    """
    text = str(value)
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


def _sum(value: object, units: dict[str, float]) -> float:
    text = str(value)
    if not text or re.sub(_NUMBER, lambda match: "" if match[2] in units else match[0], text):
        raise ValueError(f"{value!r} is not a duration such as 10m, with a unit of {', '.join(units)}")
    return sum(float(count) * units[unit] for count, unit in _NUMBER.findall(text))
