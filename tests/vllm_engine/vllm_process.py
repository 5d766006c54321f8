"""A vLLM server on this machine, started as docs/scaling.md says."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def serving(model: str, *, adapters: int, log: Path) -> Iterator[str]:
    """Serve a model for the block, for so many adapters of rank 8 at most; yields the URL. What it says goes to `log`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", model, "--host", "127.0.0.1", "--port", str(port)]
    command += ["--dtype", "float32", "--enforce-eager", "--max-model-len", "512"]
    command += ["--enable-lora", "--max-loras", str(adapters), "--max-cpu-loras", str(adapters), "--max-lora-rank", "8"]
    command += ["--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"]
    command += ["--no-enable-chunked-prefill", "--max-num-batched-tokens", "4096"]  # on a CPU, see agents/engines/vllm.py
    switches = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "VLLM_SERVER_DEV_MODE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    with log.open("wb") as said:
        server = subprocess.Popen(command, env={**os.environ, **switches}, stdout=said, stderr=subprocess.STDOUT)
    try:
        for _ in range(600):
            assert server.poll() is None, "the server ended"
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).close()
                break
            except OSError:
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(60)
