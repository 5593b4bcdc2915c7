"""A version and its indexes change together: no answer mixes those of two versions."""

import asyncio
import threading
from base64 import b64encode
from pathlib import Path
from typing import Any

import httpx
import pytest

from nightshift.serving.batching import ServerLimits

SWAPS, CLIENTS = 6, 4


def is_of_one_version(answer: dict[str, Any], expected: dict[int, dict[str, Any]]) -> bool:
    version = answer["version"]
    marks = {row["id"][:2] for name in ("nearest_reports", "nearest_images") for row in answer[name]}
    embedding = expected[version]["image_embedding"][0]
    return marks == {f"v{version}"} and answer["image_embedding"] == pytest.approx(embedding.tolist(), abs=1e-6)


def test_an_index_is_swapped_with_its_model_under_load_and_no_answer_mixes_versions(
    pairs: Any, server: Any, pointer: Any, tmp_path: Path
) -> None:
    targets = {n: pointer(pairs.save(tmp_path / str(n), seed=n, mark=f"v{n}"), n) for n in (1, 2)}
    expected = {number: pairs.expect(target.uri) for number, target in targets.items()}
    instance = {"image": b64encode(pairs.images[0]).decode(), "report": pairs.reports[0]}
    served, is_done, answers = [targets[1]], threading.Event(), []

    async def ask(url: str) -> None:
        async with httpx.AsyncClient() as client:
            while not is_done.is_set():
                response = await client.post(f"{url}/score", json={"instances": [instance] * 3})
                answers.extend(response.json()["predictions"])

    def load_clients(url: str) -> None:
        async def run() -> None:
            await asyncio.gather(*(ask(url) for _ in range(CLIENTS)))

        asyncio.run(run())

    manager, serving = server(lambda: served[0], ServerLimits())
    with serving as url:
        clients = threading.Thread(target=load_clients, args=(url,))
        clients.start()
        for swap in range(SWAPS):
            before = len(answers)
            while len(answers) < before + 3 * CLIENTS:
                assert clients.is_alive()
                is_done.wait(0.005)
            served[0] = targets[2 - swap % 2]
            manager.refresh()
        is_done.set()
        clients.join()
    assert manager.problem is None
    assert {answer["version"] for answer in answers} == {1, 2}
    assert all(is_of_one_version(answer, expected) for answer in answers)
