"""The contract of the scoring step: with a model that the pipeline has just made, or with the champion."""

from nightshift.runtime.flags import CONFIG, DATE, FEATURES, STATE, StepContract, StepInput, StepOutput

scoring = StepContract(
    "scoring",
    "Score the newest days, and those whose labels are due.",
    (
        CONFIG,
        DATE,
        STATE,
        FEATURES,
        StepInput("model", "Model", "URI of the model that scores (default: the registry's champion)", required=False),
        StepOutput("scores", "Dataset", "URI of the folder to write"),
    ),
)
scoring_of_champion = scoring.without("scoring-of-champion", "model")
