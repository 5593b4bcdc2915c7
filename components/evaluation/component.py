"""The contract of the evaluation step."""

from nightshift.runtime.flags import CONFIG, DATE, FEATURES, MODEL, STATE, StepContract, StepOutput

evaluation = StepContract(
    "evaluation",
    "Measure the candidates on the test days, compare with the champion, write a verdict.",
    (
        CONFIG,
        DATE,
        STATE,
        FEATURES,
        MODEL,
        StepOutput("evaluation", "Artifact", "URI of the folder to write"),
        StepOutput("metrics", "Metrics"),
        StepOutput("classification", "ClassificationMetrics"),
    ),
)
