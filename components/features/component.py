"""The contract of the features step: alone, as one of several shards, or after all of them."""

from nightshift.runtime.flags import CONFIG, DATE, DEVICE, STATE, StepContract, StepInput, StepOutput, StepParameter

contract = StepContract(
    "features",
    "Compute the trailing-window features of the days a run needs.",
    (
        CONFIG,
        DATE,
        DEVICE,
        STATE,
        StepInput("events", "Dataset", "URI of the events manifest"),
        StepParameter("shard", int, "number of the shard to compute, from 0 (default: all features)", required=False),
        StepParameter("shards", int, "how many shards there are, needed with --shard", required=False),
        StepOutput("features", "Dataset", "URI of the manifest to write: of the features, or of the shard"),
        StepInput("computed", "Dataset", required=False, many=True),
    ),
)
features = contract.without("", "shard", "shards", "computed")
features_shard = contract.without("features-shard", "computed")
features_of_shards = contract.without("", "shard", "shards")
