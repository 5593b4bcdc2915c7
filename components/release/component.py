"""The contract of the release step."""

from nightshift.runtime.flags import CONFIG, DATE, FEATURES, RUN, STATE, StepContract, StepOutput

release = StepContract(
    "release",
    "Compare a version that is being released with the champion, and have it answer more requests, or none.",
    (CONFIG, DATE, STATE, RUN, FEATURES, StepOutput("release", "Artifact", "URI of release.json to write")),
    acts=True,
)
