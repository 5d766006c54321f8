"""lm-eval's API model against the server: a local task, scored as it should be."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason='the server needs: pip install "agon-env[serve]"')
pytest.importorskip("uvicorn", reason='the server needs: pip install "agon-env[serve]"')
openai = pytest.importorskip("openai", reason="the official client: pip install openai")

from small_run import make_run, serving  # noqa: E402

LM_EVAL = os.environ.get("LM_EVAL") or shutil.which("lm_eval")
TASK = """
task: tiny_sums
dataset_path: json
dataset_kwargs: {{data_files: {{test: {rows}}}}}
output_type: generate_until
test_split: test
doc_to_text: "What is {{{{question}}}}?"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["\\n\\n\\n"], max_gen_toks: 24, temperature: 0.0, do_sample: false}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""


@pytest.mark.slow
@pytest.mark.skipif(LM_EVAL is None, reason='lm-eval is not installed: pip install "lm_eval[api]", or name it in $LM_EVAL')
def test_lm_eval_scores_the_pair(tmp_path: Path) -> None:
    with serving(make_run(tmp_path)) as server:
        rows = []
        with openai.OpenAI(base_url=server.url, api_key="unused") as client:
            for number in range(8):
                question = f"{number} + {number + 3}"
                asked = [{"role": "user", "content": f"What is {question}?"}]
                reply = client.chat.completions.create(
                    model="pair", messages=asked, temperature=0, max_tokens=24, stop="\n\n\n"
                )
                said = reply.choices[0].message.content
                rows.append({"question": question, "answer": said if number < 6 else "something else"})
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        (tmp_path / "tiny_sums.yaml").write_text(TASK.format(rows=tmp_path / "rows.jsonl"), encoding="utf-8")
        options = f"model=pair,base_url={server.url}/chat/completions,num_concurrent=4,max_retries=1,tokenized_requests=False"
        command = [str(LM_EVAL), "--model", "local-chat-completions", "--model_args", options, "--tasks", "tiny_sums"]
        command += ["--include_path", str(tmp_path), "--apply_chat_template", "--output_path", str(tmp_path / "out")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (results,) = (tmp_path / "out").rglob("results_*.json")
    assert json.loads(results.read_text(encoding="utf-8"))["results"]["tiny_sums"]["exact_match,none"] == 6 / 8
