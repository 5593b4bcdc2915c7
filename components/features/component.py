"""The contract of the features step."""

from nightshift.runtime.flags import CONFIG, DATE, DEVICE, STATE, StepContract, StepInput, StepOutput

features = StepContract(
    "features",
    "Compute the trailing-window features of the days a run needs.",
    (
        CONFIG,
        DATE,
        DEVICE,
        STATE,
        StepInput("events", "Dataset", "URI of the events manifest"),
        StepOutput("features", "Dataset", "URI of the features manifest to write"),
    ),
)
