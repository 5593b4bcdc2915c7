"""What the commands about trainings cannot do, and the next step."""

from pathlib import Path

import pytest

from nightshift.runtime.errors import UserError
from tests.pipelines.samples import called, command


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("costs --samples 5", "takes both --samples and --measured"),
        ("costs --samples 5 --measured l5=3", "--measured is 'l5=3'; give GPU=RATE"),
        ("costs --samples 5 --measured l4=x", "--measured is 'l4=x'"),
        ("costs --samples 5 --measured l4=1 --restart-seconds 0", "above 0"),
        ("perf plan --model llama3-8b", "plan needs --gpu"),
        ("perf plan --layers 2 --gpu l4 --batch 8", "--hidden, --heads, --vocabulary, --sequence missing"),
        ("perf plan --model llama3-8b --gpu l4 --batch 8 --nodes 0", "above 0"),
        ("perf plan --model llama3-8b --gpu t4 --batch 8", "precision is 'bf16'; t4 has fp32, fp16"),
        ("perf plan --model llama3-8b --gpu l4 --gpus-per-node 1 --batch 8 --zero 0", "would fit|would on"),
        ("perf scale --config fraud --rows 0", "have to be above 0"),
        ("perf scale --config handbook-best", "'handbook-best' has these networks: none"),
        ("perf tune --config handbook-best", "--candidate is None; 'handbook-best' has these networks: none"),
        ("perf tune --config fraud --candidate xgboost", "'fraud' has these networks: mlp"),
        ("perf tune --config fraud --inputs 0", "have to be above 0"),
        ("perf tune --config fraud --processes 1 0", "have to be above 0"),
        ("perf collectives --processes 1", "--processes is 1; two or more exchange something"),
    ],
)
def test_what_a_command_cannot_do_is_refused_with_the_next_step(words: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        called(*words.split())


def test_a_password_in_the_uri_of_the_data_is_refused_before_a_run_has_files(tmp_path: Path) -> None:
    done = command("run", "ingestion", "--data", "postgresql://shop:geheim@db/shop", "--workspace", str(tmp_path))

    assert done.returncode == 2
    assert "set NIGHTSHIFT_DATABASE_PASSWORD" in done.stderr
    assert "geheim" not in done.stderr + done.stdout
    assert not [*tmp_path.rglob("*")]
