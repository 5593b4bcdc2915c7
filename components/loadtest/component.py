"""The contract of the load test."""

from nightshift.runtime.flags import CONFIG, STATE, StepContract, StepOutput, StepParameter

loadtest = StepContract(
    "loadtest",
    "Measure what a server of the champion withstands, and how to start it.",
    (
        CONFIG,
        STATE,
        StepParameter("load", dict, "what differs from the usual load (JSON): p99_ms, seconds, connections, rates"),
        StepOutput("loadtest", "Artifact", "URI of the folder to write"),
    ),
)
