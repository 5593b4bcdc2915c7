"""BentoML as its documentation shows it."""

import bentoml
import session


@bentoml.service
class BentoScorer:
    def __init__(self) -> None:
        self.model = session.load()

    @bentoml.api
    def predict(self, inputs: list[list[float]]) -> list[float]:
        return session.score(self.model, inputs)
