"""What a model's manifest says of its inputs."""

from typing import Literal

from nightshift.contracts.preprocessing import Inputs


class ShopRates(Inputs):
    kind: Literal["shop-counts"] = "shop-counts"
    windows_days: list[int]
    label_delay_days: int
