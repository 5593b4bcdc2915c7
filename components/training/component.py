"""The contract of the training step."""

from nightshift.runtime.flags import CONFIG, DATE, DEVICE, FEATURES, STATE, StepContract, StepOutput

training = StepContract(
    "training",
    "Fit the candidates, choose one on the validation days, write them as ONNX.",
    (CONFIG, DATE, DEVICE, STATE, FEATURES, StepOutput("model", "Model", "URI of the folder to write")),
)
