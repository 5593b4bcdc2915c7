"""The artifacts of language models as typed models with a schema version."""

from nightshift.contracts.artifact import Artifact
from nightshift_llm.contracts.evaluation import LanguageEvaluation
from nightshift_llm.contracts.likelihoods import Likelihoods
from nightshift_llm.contracts.spending import GatewaySpending
from nightshift_llm.contracts.streams import StreamLoadTest
from nightshift_llm.contracts.suite import SuiteScores

# file name of the schema -> the artifact
ARTIFACTS: dict[str, type[Artifact]] = {
    "gateway_spending": GatewaySpending,
    "language_evaluation": LanguageEvaluation,
    "likelihoods": Likelihoods,
    "stream_loadtest": StreamLoadTest,
    "suite": SuiteScores,
}
