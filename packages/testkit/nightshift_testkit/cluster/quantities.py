"""Kubernetes' quantities, such as 100m or 1Gi."""

from decimal import Decimal

POWERS = {"m": Decimal("0.001"), "": Decimal(1)}
POWERS |= {letter: Decimal(1000) ** (i + 1) for i, letter in enumerate("kMGTPE")}
POWERS |= {f"{letter}i": Decimal(1024) ** (i + 1) for i, letter in enumerate("KMGTPE")}


def number(text: str | float) -> Decimal:
    """Return what a quantity means.

    Raises:
        ValueError: when it means nothing.
    """
    written = str(text)
    digits = written.rstrip("mkKMGTPEi")
    unit = written[len(digits) :]
    try:
        return Decimal(digits) * POWERS[unit]
    except (ArithmeticError, KeyError):
        raise ValueError(f"quantity {text!r} does not match a number and a unit") from None


def text(amount: Decimal) -> str:
    """The shortest plain way to write it."""
    for unit in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
        if amount and amount % POWERS[unit] == 0:
            return f"{int(amount / POWERS[unit])}{unit}"
    return str(int(amount)) if amount == int(amount) else f"{int(amount * 1000)}m"
