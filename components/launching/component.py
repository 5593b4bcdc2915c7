"""The contract of the launching step: started by the clock, or by monitoring's request."""

from nightshift.runtime.flags import CONFIG, DEVICE, STATE, StepContract, StepInput, StepOutput, StepParameter

retraining = StepContract(
    "launching",
    "Start a pipeline on Kubeflow, once for a day.",
    (
        StepParameter("pipeline", str, "name of the uploaded pipeline"),
        CONFIG,
        StepParameter("date", str, "logical date, YYYY-MM-DD (default: the last complete UTC day)", required=False),
        StepParameter("data", str, "where the raw events lie"),
        DEVICE,
        STATE,
        StepInput(
            "request",
            "Artifact",
            "URI of monitoring's request; nothing is started unless it asks for it",
            required=False,
        ),
        StepOutput("launch", "Artifact", "URI of the outcome to write"),
    ),
    name="retraining",
    acts=True,
)
launching = retraining.without("launching", "date", "request")
