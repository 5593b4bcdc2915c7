"""The contract of the ingestion step."""

from nightshift.runtime.flags import CONFIG, DATE, STATE, StepContract, StepOutput, StepParameter

ingestion = StepContract(
    "ingestion",
    "Check a window of days of raw events, quarantine bad rows, write the lake's events by day.",
    (
        CONFIG,
        DATE,
        StepParameter(
            "data", str, "'simulator', or the URI of the folder, database, catalog or brokers that hold the raw events"
        ),
        STATE,
        StepOutput("events", "Dataset", "URI of the manifest of events to write"),
    ),
)
