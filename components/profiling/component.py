"""The contract of the profiling step."""

from nightshift.runtime.flags import CONFIG, DATE, DEVICE, FEATURES, MODEL, StepContract, StepOutput

profiling = StepContract(
    "profiling",
    "Profile the selected model's training and scoring: rows per second, phases, operations, memory.",
    (CONFIG, DATE, DEVICE, FEATURES, MODEL, StepOutput("profile", "Artifact", "URI of the folder to write")),
)
