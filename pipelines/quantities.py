"""Quantities as Kubernetes writes them, such as 500m or 16Gi."""

from decimal import Decimal, InvalidOperation

from nightshift.runtime.errors import UserError

_DECIMAL, _BINARY = "kMGTPE", "KMGTPE"
UNITS = {"m": Decimal("0.001"), "": Decimal(1)}
UNITS |= {unit: Decimal(1000) ** power for power, unit in enumerate(_DECIMAL, 1)}
UNITS |= {f"{unit}i": Decimal(1024) ** power for power, unit in enumerate(_BINARY, 1)}


def parse_quantity(text: str) -> Decimal:
    """Return a quantity in cores, bytes or pieces.

    Raises:
        UserError: when it is none.
    """
    digits = text.rstrip("imkKMGTPE")
    try:
        return Decimal(digits) * UNITS[text[len(digits) :]]
    except (InvalidOperation, KeyError):
        raise UserError(f"quantity is {text!r}; allowed is a number with a unit, such as 500m or 16Gi") from None
