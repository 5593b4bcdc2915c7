"""The contract of the monitoring step."""

from nightshift.runtime.flags import CONFIG, DATE, STATE, StepContract, StepInput, StepOutput

monitoring = StepContract(
    "monitoring",
    "Decide from the drift of the last days whether to ask for a retraining.",
    (
        CONFIG,
        DATE,
        STATE,
        StepInput("drift", "Artifact", "URI of what the drift step has written"),
        StepOutput("request", "Artifact", "URI of the request to write"),
    ),
)
