import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import yaml
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from nightshift.contracts.verdict import Decision, Verdict
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift_llm.contracts.suite import SuiteMetric, SuiteScores
from nightshift_llm.streams.client import Target
from nightshift_llm.suite import comparison, endpoint, harness, items
from nightshift_llm.suite.endpoint import CompletionEndpoint, EchoReader, ForcedReader, open_reader, split_tokens
from nightshift_llm.suite.items import CHOICE, CLOZE, COMPLETION, SuiteItem
from nightshift_testkit.engines import completion_server
from nightshift_testkit.servers import free_port
from packages.llm.tests import models
from packages.llm.tests.test_engine import engine
from pipelines.cli.__main__ import parse_command_line

TEXTS = [" ".join(part.split()) for part in models.PARTS]


@pytest.fixture(scope="module")
def reference(trained: Path) -> Iterator[str]:
    with completion_server.serve(trained) as url:
        yield url


@pytest.fixture(scope="module")
def llamacpp(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("suite") / "log.txt"
    with engine(original, log, "--context", "512", "--slots", "2", "--threads", "1") as (_, url):
        yield url


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    documents = tmp_path / "documents.txt"
    documents.write_text("\n".join(TEXTS))
    assert command("suite", str(documents), str(tmp_path / "suite"), "--items", "6") == 0
    return tmp_path / "suite"


def command(*words: str) -> int:
    args = parse_command_line(["llm", *words])
    return int(args.command(args))


def connect(url: str) -> CompletionEndpoint:
    return CompletionEndpoint(Target(url, "/v1/completions"), "license")


def evaluate(url: str, suite: Path, trained: Path, *words: str) -> int:
    folder = suite.parent / "scores"
    flags = ["--suite", str(suite), "--tokenizer", str(trained / "tokenizer.json"), "--output", str(folder)]
    return command("evaluate", url, *flags, *words)


def test_an_item_is_the_beginning_of_a_document_and_what_follows() -> None:
    tasks = items.build_suite(TEXTS, 8)
    for choice, cloze, completion in zip(tasks[CHOICE], tasks[CLOZE], tasks[COMPLETION], strict=True):
        (document,) = [text for text in TEXTS if text.startswith(choice.context + choice.target)]
        assert document.startswith(cloze.context + cloze.target)
        assert document.startswith(completion.context + completion.target)
        assert len(set(choice.choices)) == len(choice.choices) == 4
        assert len(choice.context.split()) == 24
        assert len(choice.target.split()) == 8
        assert len(cloze.target.split()) == 1
        assert len(completion.target.split()) == 2


def test_the_same_documents_give_the_same_items_in_any_order_and_however_often() -> None:
    assert items.build_suite(TEXTS, 8) == items.build_suite([*reversed(TEXTS), TEXTS[0]], 8)


def test_the_right_choice_is_at_every_place() -> None:
    texts = [f"{number} " + " ".join(f"{number}w{word}" for word in range(40)) for number in range(40)]
    assert {item.answer for item in items.build_suite(texts, 40)[CHOICE]} == {0, 1, 2, 3}


def test_too_few_or_short_documents_are_refused() -> None:
    with pytest.raises(UserError, match=r"\d have different first 32 words; give at least 4"):
        items.build_suite([*TEXTS[2:5], "short"], 8)
    with pytest.raises(UserError, match="--items is 3; give at least 4"):
        command("suite", "documents.txt", "suite", "--items", "3")
    with pytest.raises(UserError, match=r"documents documents\.txt is not a file; give a file with one text per line"):
        command("suite", "documents.txt", "suite")


def test_a_suite_is_written_for_the_harness_and_read_again(suite: Path) -> None:
    tasks = harness.read_suite(str(suite))
    assert set(tasks) == {CHOICE, CLOZE, COMPLETION}
    assert all(isinstance(item, SuiteItem) for item in tasks[CHOICE])
    group = yaml.safe_load((suite / "nightshift.yaml").read_text())
    described = {yaml.safe_load((suite / f"{name}.yaml").read_text())["task"] for name in tasks}
    assert set(group["task"]) == described
    first = json.loads((suite / "cloze.jsonl").read_text().splitlines()[0])
    assert first["choices"][first["answer"]] == tasks[CLOZE][0].target


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("{}\n", r"choice.jsonl is not a task file of a suite .*; write one with nightshift llm suite"),
        ('{"context": "a", "choices": ["b"], "answer": -1}\n', "answer is -1, which is none of 1 choices"),
        ("", "choice.jsonl has no items"),
    ],
)
def test_a_file_that_is_no_task_is_refused(suite: Path, lines: str, message: str) -> None:
    (suite / "choice.jsonl").write_text(lines)
    with pytest.raises(UserError, match=message):
        harness.read_suite(str(suite))


@pytest.mark.slow
def test_echoed_and_forced_likelihoods_are_those_of_transformers(trained: Path, reference: str, llamacpp: str) -> None:
    tokenizer = Tokenizer.from_file(str(trained / "tokenizer.json"))
    context, continuation = split_tokens(tokenizer, TEXTS[2][:80], TEXTS[2][80:100])
    logits = LlamaForCausalLM.from_pretrained(trained)(torch.tensor([context + continuation])).logits.detach()
    shares = logits[0, len(context) - 1 : -1].log_softmax(-1)
    expected = float(shares.gather(1, torch.tensor(continuation)[:, None]).sum())
    readers = [open_reader(connect(url), context) for url in (reference, llamacpp)]
    assert [type(reader) for reader in readers] == [EchoReader, ForcedReader]
    for reader in readers:
        likelihood = reader.measure(context, continuation)
        assert likelihood.nats == pytest.approx(expected, abs=0.02)
        assert likelihood.is_greedy == bool((shares.argmax(1) == torch.tensor(continuation)).all())


@pytest.mark.slow
def test_what_the_model_generates_is_greedy_by_either_way(trained: Path, reference: str, llamacpp: str) -> None:
    context = Tokenizer.from_file(str(trained / "tokenizer.json")).encode(TEXTS[0][:60]).ids
    likeliest = completion_server.ReferenceModel(trained).generate(context, 3)[len(context) :]
    for url in (reference, llamacpp):
        reader = open_reader(connect(url), context)
        assert reader.measure(context, likeliest).is_greedy
        assert not reader.measure(context, [*likeliest[:2], 5]).is_greedy


@pytest.mark.slow
def test_a_served_model_has_the_same_scores_by_either_way(
    suite: Path, trained: Path, reference: str, llamacpp: str
) -> None:
    scores = []
    for url in (reference, llamacpp):
        assert evaluate(url, suite, trained) == 0
        scores.append(SuiteScores.read(str(suite.parent / "scores" / "suite.json")))
    for echoed, forced in zip(scores[0].metrics, scores[1].metrics, strict=True):
        assert echoed.name == forced.name
        assert echoed.items == pytest.approx(forced.items, abs=0.02)
    assert scores[1].metrics[2].value > 0


@pytest.mark.slow
def test_a_model_is_as_good_as_itself(
    suite: Path, trained: Path, llamacpp: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(llamacpp, suite, trained) == 0
    assert evaluate(llamacpp, suite, trained, "--champion", str(suite.parent / "scores")) == 0
    verdict = Verdict.read(str(suite.parent / "scores" / "verdict.json"))
    assert (verdict.gate, verdict.decision) == ("suite", Decision.PASS)
    assert "pass: choice acc norm: " in capsys.readouterr().out


def scored(losses: list[float], suite_sha256: str = "a") -> SuiteScores:
    metric = SuiteMetric(name="cloze_nats", higher_is_better=False, value=0, interval=(0, 0), items=losses)
    return SuiteScores(model="m", suite_sha256=suite_sha256, metrics=[metric])


@pytest.mark.parametrize(
    ("added", "decision"),
    [
        ([-0.5] * 20, Decision.PASS),
        ([0.01] * 20, Decision.PASS),
        ([0.5] * 20, Decision.FAIL),
        ([1.0, -1.0] * 10, Decision.UNDECIDED),
    ],
)
def test_a_challenger_fails_if_it_loses_more_than_is_tolerated_and_not_by_chance(
    added: list[float], decision: Decision
) -> None:
    losses = [float(number) for number in range(20)]
    challenger = scored([loss + more for loss, more in zip(losses, added, strict=True)])
    assert comparison.compare_scores(challenger, scored(losses), "s").decision is decision


def test_scores_of_other_items_are_not_compared() -> None:
    with pytest.raises(UserError, match="its scores are from another suite"):
        comparison.compare_scores(scored([1.0]), scored([1.0], "b"), "s")


def test_a_server_that_is_down_is_worth_another_try() -> None:
    with pytest.raises(UnavailableError, match="does not answer"):
        connect(f"http://127.0.0.1:{free_port()}").complete([1], 1)


@pytest.mark.slow
def test_a_prompt_beyond_the_context_and_a_wrong_tokenizer_are_the_users_to_fix(llamacpp: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"answered 400.*check --model, --token-file and the server's context"):
        connect(llamacpp).complete([5] * 600, 1)
    with pytest.raises(UserError, match=r"give the model's tokenizer.json"):
        endpoint.load_tokenizer(tmp_path / "none.json")


class BiasedEndpoint(CompletionEndpoint):
    """A server whose log-probabilities are those after the bias."""

    def can_echo(self, tokens: object) -> bool:
        return False

    def complete(self, tokens: object, limit: int, **fields: object) -> endpoint.CompletionChoice:
        return endpoint.CompletionChoice(logprobs=endpoint.TokenLogprobs([-1e-9], [{"a": -1e-9}]))


def test_a_server_that_reports_forced_tokens_as_certain_is_refused() -> None:
    with pytest.raises(UserError, match="reports logprobs after the logit_bias, which say nothing of the model"):
        open_reader(BiasedEndpoint(Target("http://h", "/v1/completions"), "m"), [1, 2, 3])


class ForgetfulEndpoint(CompletionEndpoint):
    """A server that echoes a prompt without its log-probabilities, such as of one that it has cut."""

    def complete(self, tokens: object, limit: int, **fields: object) -> endpoint.CompletionChoice:
        return endpoint.CompletionChoice(logprobs=endpoint.TokenLogprobs([-1.0], [{"a": -1.0}]))


def test_a_continuation_without_logprobs_is_not_taken_for_a_certain_one() -> None:
    reader = EchoReader(ForgetfulEndpoint(Target("http://h", "/v1/completions"), "m"))
    with pytest.raises(UserError, match="gives logprobs of 1 of 3 tokens"):
        reader.measure([1, 2], [3])
