"""The contract of the deployment step."""

from nightshift.runtime.flags import CONFIG, DATE, FEATURES, MODEL, RUN, STATE, StepContract, StepInput, StepOutput

deployment = StepContract(
    "deployment",
    "Register a model, promote it where the verdicts allow, serve the champion.",
    (
        CONFIG,
        DATE,
        STATE,
        RUN,
        FEATURES,
        MODEL,
        StepInput("evaluation", "Artifact", "URI of the folder of the evaluation"),
        StepInput("drift", "Artifact", "URI of the folder of the drift step"),
        StepOutput("deployment", "Artifact", "URI of deployment.json to write"),
    ),
    acts=True,
)
