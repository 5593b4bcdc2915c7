"""From what the windows of one event hold to its numeric inputs, with the batch kernel's arithmetic."""

from functools import lru_cache

from nightshift.contracts.preprocessing import Windows
from nightshift.tabular import windows
from nightshift.tabular.online.base import WindowTotals
from nightshift.tabular.online.event import Event
from nightshift.tabular.windows import QUARTER


class EventInputs:
    """How the inputs of one event follow from its windows."""

    def __init__(self, spec: Windows) -> None:
        self._lengths, self._delay, self._scale = windows.lengths(spec), windows.delay(spec), 10**spec.amount_decimals
        self._has_amount, self._timezone = "amount" in spec.roles, spec.timezone

    def units(self, amount: float) -> int:
        """Return an amount in minor units."""
        units: int = round(amount * self._scale)
        return units

    def customer_edges(self, time: int) -> list[int]:
        """Return the moments after which the customer's windows of an event start."""
        return [time - length for length in self._lengths]

    def terminal_edges(self, time: int) -> tuple[int, list[int]]:
        """Return the moment that the terminal's windows of an event end with, and those after which they start."""
        last = time - self._delay
        return last, [last - length for length in self._lengths]

    def row(self, event: Event, customer: WindowTotals | None, terminal: WindowTotals | None) -> list[float]:
        """Return the numeric inputs of an event, in the order of `windows.numeric_inputs`.

        Args:
            event: whose they are.
            customer: what its customer's windows hold; None in a use case without customers.
            terminal: what its terminal's windows hold; None in a use case without terminals.
        """
        row = [event.amount] if self._has_amount else []
        row += _calendar(event.time // QUARTER, self._timezone)
        if customer and self._has_amount:
            scale = self._scale
            for count, total in zip(*customer, strict=True):
                # as arrays are divided: both as float64, in which a large sum is rounded first
                row += count, float(total) / (count * scale)
        elif customer:
            row += customer[0]
        if terminal:
            for count, positives in zip(*terminal, strict=True):
                row += count, positives / count if count else 0.0
        row += event.numeric
        return row


@lru_cache(maxsize=4096)
def _calendar(quarter: int, timezone: str) -> tuple[float, float]:
    """Return the calendar's flags in a quarter of an hour, counted since 1970, by a zone's clock."""
    wall = windows.wall_time(quarter, timezone)
    return float(windows.is_weekend(wall)), float(windows.is_night(wall))
