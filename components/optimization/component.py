"""The contracts of the optimization step, and of its comparison of all forms."""

from nightshift.runtime.flags import CONFIG, FEATURES, MODEL, StepContract, StepOutput

optimization = StepContract(
    "optimization",
    "Serve the selected graph in the form that the config names.",
    (CONFIG, FEATURES, MODEL, StepOutput("optimized", "Model", "URI of the model to write")),
)
comparison = StepContract(
    "optimization",
    "Measure every form of the selected graph.",
    (CONFIG, FEATURES, MODEL, StepOutput("result", "Artifact", "URI of the folder for optimization.json")),
)
