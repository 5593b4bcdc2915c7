"""The contract of the reporting step; a pipeline gives it the artifacts it has."""

from nightshift.runtime.flags import (
    CONFIG,
    DATE,
    DEVICE,
    RUN,
    STATE,
    StepContract,
    StepInput,
    StepOutput,
    StepParameter,
)

reporting = StepContract(
    "reporting",
    "Write the summary, the report and an overview of a run.",
    (
        CONFIG,
        DATE,
        DEVICE,
        StepParameter("data", str, "where the raw events came from"),
        STATE,
        RUN,
        StepOutput("summary", "Artifact", "URI of the JSON file to write"),
        StepOutput("report", "HTML", "URI of the HTML file to write"),
        StepOutput("overview", "Markdown", "URI of the Markdown file to write"),
        StepInput("events", "Dataset"),
        StepInput("features", "Dataset"),
        StepInput("model", "Model"),
        StepInput("optimized", "Model"),
        StepInput("profile", "Artifact"),
        StepInput("evaluation", "Artifact"),
        StepInput("scores", "Dataset"),
        StepInput("drift", "Artifact"),
        StepInput("deployment", "Artifact"),
        StepInput("request", "Artifact"),
        StepInput("launch", "Artifact"),
        StepInput("loadtest", "Artifact"),
        StepInput("release", "Artifact"),
    ),
    has_budget=False,
)
