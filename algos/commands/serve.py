"""`agon serve`."""

from __future__ import annotations

import os

from algos.commands import DONE
from algos.commands.flags import Count, CountIfAny, NameIfAny, Names, Port, Run, Seconds


def command(
    run: Run,
    host: str = "127.0.0.1",
    port: Port = 8000,
    drafter: NameIfAny = None,
    challenger: NameIfAny = None,
    api_key_env: NameIfAny = None,
    insecure: bool = False,
    allow_host: Names = (),
    max_concurrency: Count = 128,
    max_tokens_limit: Count = 2048,
    max_prompt_tokens: CountIfAny = None,
    max_rows: Count = 64,
    timeout: Seconds = 600.0,
) -> int:
    """Serve the policies of a run to clients of the OpenAI API.

    The pair is one model: it drafts, then answers, and the draft is its reasoning content. docs/serve.md has the details.

    Args:
        run: folder of the run.
        host: where to listen; another address than loopback needs a key.
        port: 0 takes any free one.
        drafter: the policy of the pair that drafts. Default: the first one.
        challenger: the policy of the pair that answers. Default: the second one.
        api_key_env: the environment variable that holds the key which clients must send.
        insecure: serve other machines without a key.
        allow_host: more names by which clients may call the server (their Host header).
        max_concurrency: completions that are written or wait at one time; more are refused.
        max_tokens_limit: most tokens of one text that a client may ask for.
        max_prompt_tokens: most tokens of a prompt. Default: what the model's context holds.
        max_rows: most completions in one batch.
        timeout: seconds after which a completion is given up.
    """
    from agents.errors import DependencyNotInstalled
    from algos.errors import ConfigError

    try:
        from algos.serving.app import ChatServer, Limits
        from algos.serving.models import served_models
        from algos.serving.server import Address, serve
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "pydantic"):
            raise
        raise DependencyNotInstalled(f'agon serve needs {error.name}: pip install "agon-env[serve]"') from error
    from algos.training.trained import load_trained

    api_key = os.environ.get(api_key_env, "").strip() if api_key_env is not None else None
    if api_key == "":
        raise ConfigError(f"--api-key-env names {api_key_env}, which is not set: put the key there, or leave the flag out")
    address = Address(host, port, allow_hosts=allow_host, insecure=insecure)
    address.check(api_key=api_key)  # before the model is loaded, which may take long
    models = served_models(load_trained(run), drafter=drafter, challenger=challenger)
    limits = Limits(concurrency=max_concurrency, tokens=max_tokens_limit, prompt_tokens=max_prompt_tokens, seconds=timeout)
    chat = ChatServer(models, limits=limits, api_key=api_key, max_rows=max_rows)
    serve(chat, address, on_start=lambda url: print(f"{', '.join(models)} at {url}   (Ctrl-C stops)", flush=True))
    return DONE
