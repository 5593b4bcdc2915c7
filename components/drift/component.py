"""The contract of the drift step."""

from nightshift.runtime.flags import CONFIG, DATE, FEATURES, StepContract, StepInput, StepOutput

drift = StepContract(
    "drift",
    "Compare the newest days with the model's reference, write a verdict.",
    (
        CONFIG,
        DATE,
        FEATURES,
        StepInput("scores", "Dataset", "URI of what the scoring step has written"),
        StepOutput("drift", "Artifact", "URI of the folder to write"),
    ),
)
