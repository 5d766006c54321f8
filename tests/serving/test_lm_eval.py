"""lm-eval's API models against the server: local tasks, scored as they should be."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("starlette", reason='the server needs: pip install "agon-env[serve]"')
pytest.importorskip("uvicorn", reason='the server needs: pip install "agon-env[serve]"')
openai = pytest.importorskip("openai", reason="the official client: pip install openai")

from small_run import Running, make_run, serving  # noqa: E402

from agents import embedded  # noqa: E402
from agents.policy import LLMPolicy  # noqa: E402
from algos.training.trained import load_trained  # noqa: E402

LM_EVAL = os.environ.get("LM_EVAL") or shutil.which("lm_eval")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(LM_EVAL is None, reason="lm-eval is not installed: .ci/lm-eval, or name it in $LM_EVAL"),
]

TASK = """
task: tiny
dataset_path: json
dataset_kwargs: {{data_files: {{test: {rows}}}}}
test_split: test
doc_to_text: "What is {{{{question}}}}?"
"""
GENERATED = """
output_type: generate_until
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["\\n\\n\\n"], max_gen_toks: 24, temperature: 0.0, do_sample: false}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
"""
CHOSEN = """
output_type: multiple_choice
doc_to_choice: ["4", "2 + 2", "Start with 7", "a+1=2"]
doc_to_target: answer
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
"""
CHOICES = ["4", "2 + 2", "Start with 7", "a+1=2"]
QUESTIONS = [f"{number} + {number + 3}" for number in range(8)]


def lm_eval(folder: Path, task: str, rows: list[dict[str, Any]], model: str, options: str, *flags: str) -> tuple[float, Path]:
    """Have lm-eval judge a model on some rows; return its score, and the folder with what it wrote."""
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "tiny.yaml").write_text(TASK.format(rows=folder / "rows.jsonl") + task, encoding="utf-8")
    command = [str(LM_EVAL), "--model", model, "--model_args", options, "--tasks", "tiny", *flags]
    command += ["--include_path", str(folder), "--output_path", str(folder / "out"), "--log_samples"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    (results,) = (folder / "out").rglob("results_*.json")
    found = json.loads(results.read_text(encoding="utf-8"))["results"]["tiny"]
    return found.get("exact_match,none", found.get("acc,none")), results.parent


def half_right(said: list[str]) -> list[dict[str, Any]]:
    return [
        {"question": question, "answer": text if number < 6 else "something else"}
        for number, (question, text) in enumerate(zip(QUESTIONS, said, strict=True))
    ]


def options(server: Running, model: str, route: str) -> str:
    return f"model={model},base_url={server.url}/{route},num_concurrent=4,max_retries=1"


def test_lm_eval_scores_the_pair(tmp_path: Path) -> None:
    with serving(make_run(tmp_path)) as server:
        asked = {"model": "pair", "temperature": 0, "max_tokens": 24, "stop": "\n\n\n"}
        with openai.OpenAI(base_url=server.url, api_key="unused") as client:
            messages = [[{"role": "user", "content": f"What is {question}?"}] for question in QUESTIONS]
            replies = [client.chat.completions.create(messages=said, **asked) for said in messages]
        rows = half_right([reply.choices[0].message.content for reply in replies])
        flags = options(server, "pair", "chat/completions") + ",tokenized_requests=False"
        score, _ = lm_eval(tmp_path, GENERATED, rows, "local-chat-completions", flags, "--apply_chat_template")
    assert score == 6 / 8


def test_lm_eval_has_a_policy_go_on_from_texts(tmp_path: Path) -> None:
    with serving(make_run(tmp_path)) as server:
        with openai.OpenAI(base_url=server.url, api_key="unused") as client:
            replies = [
                client.completions.create(model="alice", prompt=f"What is {question}?", temperature=0, max_tokens=24)
                for question in QUESTIONS
            ]
        rows = half_right([reply.choices[0].text for reply in replies])
        flags = options(server, "alice", "completions") + f",tokenizer={embedded.path()}"
        score, _ = lm_eval(tmp_path, GENERATED, rows, "local-completions", flags)
    assert score == 6 / 8


def logprob(policy: LLMPolicy, question: str, choice: str) -> float:
    """The log-probability of a choice after its question, by transformers alone."""
    before, after = (policy.base.tokenizer(text)["input_ids"] for text in (f"What is {question}?", f" {choice}"))
    with torch.no_grad(), policy.base.use(policy.name):
        logp_SV = policy.base.model(input_ids=torch.tensor([before + after])).logits[0].float().log_softmax(-1)
    return sum(logp_SV[len(before) - 1 + place, token].item() for place, token in enumerate(after))


def test_lm_eval_compares_likelihoods(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    alice = load_trained(run).policies["alice"]
    likely = [[logprob(alice, question, choice) for choice in CHOICES] for question in QUESTIONS]
    best = [max(range(len(CHOICES)), key=values.__getitem__) for values in likely]
    answers = [place if number < 6 else (place + 1) % len(CHOICES) for number, place in enumerate(best)]
    rows = [{"question": question, "answer": answer} for question, answer in zip(QUESTIONS, answers, strict=True)]
    with serving(run) as server:
        flags = options(server, "alice", "completions") + f",tokenizer={embedded.path()}"
        score, folder = lm_eval(tmp_path, CHOSEN, rows, "local-completions", flags, "--batch_size", "4")
    assert score == 6 / 8
    (samples,) = folder.glob("samples_*.jsonl")
    found = [json.loads(line) for line in samples.read_text(encoding="utf-8").split("\n") if line]
    for sample, values in zip(sorted(found, key=lambda sample: sample["doc_id"]), likely, strict=True):
        assert [float(response[0][0]) for response in sample["resps"]] == pytest.approx(values, abs=1e-3)
