"""What a model's manifest says of its inputs."""

from typing import Literal

from nightshift.contracts.preprocessing import Inputs


class ShopRates(Inputs):
    highest_score = 100.0
    kind: Literal["shop-counts"] = "shop-counts"
