"""The contract of the release step."""

from nightshift.runtime.flags import CONFIG, DATE, FEATURES, RUN, STATE, StepContract, StepOutput, StepParameter

release = StepContract(
    "release",
    "Compare a version that is being released with the champion, and have it answer more requests, or none.",
    (
        CONFIG,
        DATE,
        STATE,
        RUN,
        FEATURES,
        StepParameter("approve", str, "number of a version that a person approves (default: none)", required=False),
        StepParameter("reason", str, "why, in the person's words", required=False),
        StepParameter("by", str, "the person (default: the user of the process)", required=False),
        StepOutput("release", "Artifact", "URI of release.json to write"),
    ),
    acts=True,
)
