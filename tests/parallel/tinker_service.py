"""A small Tinker service on this machine: what the client of PyPI's `tinker` asks of one, on a model of ours.

It knows nothing of our losses and optimisers: "ppo", "cispo" and "cross_entropy" are written as Tinker documents them, on one
row at a time, and the optimiser is torch's. Faults are planted by `fail` and `lose`.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route
from tinker.proto import tinker_public_pb2 as wire
from torch import Tensor

from agents.engines.torch import TorchEngine
from agents.policy import LLMPolicy
from agents.sampling import SamplingParams
from agents.shared_base import SharedBase

KEY = "tml-key-of-the-tests"
NUMBERS = {wire.DTYPE_FLOAT32: np.float32, wire.DTYPE_INT64: np.int64}
ANSWERS = {
    "client/config": {},
    "client/dynamic_config": {},
    "create_session": {"session_id": "session"},
    "session_heartbeat": {},
    "telemetry": {"status": "accepted"},
}


class TinkerService:
    """The state of the service: adapters that are trained, snapshots that are sampled, states that are kept."""

    def __init__(self, model: str, *, folder: Path) -> None:
        self.base, self.folder = SharedBase.load(model, device="cpu"), folder
        self.model, self.url = model, ""
        self.optimizers: dict[str, torch.optim.AdamW] = {}
        self.players: dict[str, LLMPolicy] = {"base": self.base.policy()}
        self.ranks: dict[str, int] = {}
        self.kept: dict[str, tuple[str, dict[str, Tensor], dict[str, Any]]] = {}
        self.results: dict[str, Any] = {}
        self.asked: Counter[str] = Counter()
        self.failing: dict[str, list[int]] = {}
        self.losing: Counter[str] = Counter()
        self._numbers, self._lock = itertools.count(), threading.Lock()

    # --- faults -------------------------------------------------------------------------------------

    def fail(self, what: str, *statuses: int) -> None:
        """Answer the next requests of a kind with these HTTP statuses."""
        self.failing[what] = list(statuses)

    def lose(self, what: str) -> None:
        """Lose the result of the next request of a kind."""
        self.losing[what] += 1

    # --- what is asked ------------------------------------------------------------------------------

    def answer(self, what: str, body: bytes, asked: dict[str, Any]) -> Any:
        with self._lock:
            self.asked[what] += 1
            if what in ANSWERS:
                return {"type": what.rpartition("/")[2], **ANSWERS[what]}
            if what in ("get_info", "create_sampling_session", "retrieve_future"):
                return getattr(self, what)(asked)
            found = self.forward_backward(body) if what == "forward_backward" else getattr(self, what)(asked)
            request_id = f"{what}-{next(self._numbers)}"
            if self.losing[what]:
                self.losing[what] -= 1
            else:
                self.results[request_id] = found
            return {"request_id": request_id, **({"sample_sequence_ids": [request_id]} if what == "asample" else {})}

    def retrieve_future(self, asked: dict[str, Any]) -> Any:
        return self.results.pop(asked["request_id"], None) or Response(status_code=410)

    def get_info(self, asked: dict[str, Any]) -> Any:
        return {"model_id": asked["model_id"], "model_data": {"model_name": self.model}}

    def create_model(self, asked: dict[str, Any]) -> Any:
        name, config = f"run{next(self._numbers)}", asked["lora_config"]
        assert asked["base_model"] == self.model
        assert not config["train_unembed"]
        self._add(name, rank=config["rank"], seed=config["seed"])
        return {"model_id": name}

    def forward_backward(self, body: bytes) -> bytes:
        request = wire.ForwardBackwardRequest.FromString(body)
        with torch.set_grad_enabled(not request.forward_only), self.base.use(self.players[request.model_id].name):
            scored, loss = [], torch.zeros(())
            for datum in request.data:
                (chunk,) = datum.model_input
                inputs = {name: _tensor(tensor) for name, tensor in datum.loss_fn_inputs.items()}
                logp_S = self._logprobs(np.frombuffer(chunk.encoded_text.tokens, np.int32), inputs["target_tokens"])
                scored.append(logp_S)
                loss = loss + _loss(request.loss_fn, dict(request.loss_fn_config), logp_S, inputs)
            if not request.forward_only:
                loss.backward()
        return _outputs(scored, loss.item())

    def optim_step(self, asked: dict[str, Any]) -> Any:
        optimizer, params = self.optimizers[asked["model_id"]], asked["adam_params"]
        (group,) = optimizer.param_groups
        norm = torch.nn.utils.get_total_norm([parameter.grad for parameter in group["params"]])
        if params["grad_clip_norm"]:
            torch.nn.utils.clip_grads_with_norm_(group["params"], params["grad_clip_norm"], norm)
        group |= {"lr": params["learning_rate"], "betas": (params["beta1"], params["beta2"])}
        group |= {"eps": params["eps"], "weight_decay": params["weight_decay"]}
        optimizer.step()
        optimizer.zero_grad()
        return {"metrics": {"grad_norm:mean": norm.item()}}

    def save_weights_for_sampler(self, asked: dict[str, Any]) -> Any:
        name = f"sampler{next(self._numbers)}"
        self._add(name, rank=self.ranks[asked["model_id"]], seed=0, weights=self._state(asked["model_id"]))
        return {"sampling_session_id": name}

    def create_sampling_session(self, asked: dict[str, Any]) -> Any:
        assert asked["base_model"] == self.model
        return {"type": "create_sampling_session", "sampling_session_id": "base"}

    def asample(self, asked: dict[str, Any]) -> Any:
        own, prompt = asked["sampling_params"], [token for chunk in asked["prompt"]["chunks"] for token in chunk["tokens"]]
        name = asked["sampling_session_id"]
        if asked.get("prompt_logprobs"):
            ids = np.array(prompt)
            with torch.no_grad(), self.base.use(self.players[name].name):
                scored = [float("nan"), *self._logprobs(ids[:-1], torch.from_numpy(ids[1:])).tolist()]
            return _sampled((), (), "length", prompt_logprobs=scored)
        assert (own["top_k"], own["top_p"], set(own["stop"])) == (-1, 1.0, self.base.eos_ids)
        params = SamplingParams(max_tokens=own["max_tokens"], temperature=own["temperature"])
        (said,) = TorchEngine().sample(self.players[name], [prompt], params, seeds=[own["seed"]])
        return _sampled(said.token_ids, said.logprobs, said.finish_reason)

    def save_weights(self, asked: dict[str, Any]) -> Any:
        name, path = asked["model_id"], f"tinker://{asked['model_id']}/weights/{asked['path']}"
        self.kept[path] = name, self._state(name), _copied(self.optimizers[name].state_dict())
        return {"path": path}

    def load_weights(self, asked: dict[str, Any]) -> Any:
        assert asked["optimizer"]
        before, weights, optimizer = self.kept[asked["path"]]
        name = f"{asked['session_id']}:train:{asked['model_seq_id']}"
        self._add(name, rank=self.ranks[before], seed=0, weights=weights)
        self.optimizers[name].load_state_dict(_copied(optimizer))
        return {"path": asked["path"]}

    def save_weights_external(self, asked: dict[str, Any]) -> Any:
        self.players[asked["model_id"]].save(self.folder / asked["model_id"] / asked["path"])
        return {"path": f"tinker://{asked['model_id']}/external_weights/{asked['path']}"}

    # --- how it works -------------------------------------------------------------------------------

    def _add(self, name: str, *, rank: int, seed: int, weights: dict[str, Tensor] | None = None) -> None:
        player = self.base.policy(name.replace(":", "-"), rank=rank, alpha=rank, seed=seed)
        for key, tensor in (weights or {}).items():
            self.base.adapters.state(player.name)[key].copy_(tensor)
        self.players[name], self.ranks[name] = player, rank
        self.optimizers[name] = torch.optim.AdamW(player.parameters())

    def _state(self, name: str) -> dict[str, Tensor]:
        return {key: tensor.clone() for key, tensor in self.base.adapters.state(self.players[name].name).items()}

    def _logprobs(self, ids: Any, targets: Tensor) -> Tensor:
        logits_SV = self.base.model(input_ids=torch.from_numpy(np.array(ids, np.int64))[None]).logits[0]
        return logits_SV.log_softmax(-1).gather(-1, targets[:, None])[:, 0]


def _copied(state: dict[str, Any]) -> dict[str, Any]:
    moments = {index: {key: value.clone() for key, value in of.items()} for index, of in state["state"].items()}
    return {"state": moments, "param_groups": [dict(group) for group in state["param_groups"]]}


def _loss(name: str, config: dict[str, float], logp_S: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    """Return what https://tinker-docs.thinkingmachines.ai/losses says."""
    if name == "cross_entropy":
        return -(logp_S * inputs["weights"]).sum()
    ratio_S = (logp_S - inputs["logprobs"]).exp()
    clipped_S = ratio_S.clamp(config["clip_low_threshold"], config["clip_high_threshold"])
    if name == "cispo":
        return -(clipped_S.detach() * logp_S * inputs["advantages"]).sum()
    assert name == "ppo"
    return -torch.minimum(ratio_S * inputs["advantages"], clipped_S * inputs["advantages"]).sum()


def _tensor(message: Any) -> Tensor:
    return torch.from_numpy(np.frombuffer(message.dense, NUMBERS[message.dtype]).copy())


def _outputs(scored: list[Tensor], loss: float) -> bytes:
    lengths = [4 * len(logp_S) for logp_S in scored]
    record = wire.ArrayRecord(num_datums=len(scored))
    record.fields["logprobs"].data = torch.cat(scored).detach().numpy().tobytes()
    record.fields["logprobs"].offsets = np.cumsum([0, *lengths], dtype=np.int64).tobytes()
    record.fields["logprobs"].dtype = wire.DTYPE_FLOAT32
    output = wire.ForwardBackwardOutput(loss_fn_output_type="ArrayRecord", loss_fn_outputs=[record])
    output.metrics["loss:sum"] = loss
    return output.SerializeToString()


def _sampled(tokens: Any, logprobs: Any, reason: str, *, prompt_logprobs: list[float] | None = None) -> bytes:
    reasons = {"stop": wire.STOP_REASON_STOP, "length": wire.STOP_REASON_LENGTH}
    sequence = wire.SampledSequence(
        stop_reason=reasons[reason],
        tokens=np.array(tokens, np.int32).tobytes(),
        logprobs=np.array(logprobs, np.float32).tobytes(),
    )
    response = wire.SampleResponse(sequences=[sequence])
    if prompt_logprobs is not None:
        response.prompt_logprobs = np.array(prompt_logprobs, np.float32).tobytes()
    return response.SerializeToString()


def _app(service: TinkerService) -> Starlette:
    async def post(request: Request) -> Response:
        what, body = request.path_params["what"], await request.body()
        if request.headers.get("x-api-key") != KEY:
            return JSONResponse({"detail": "no such key"}, status_code=401)
        if service.failing.get(what):
            return JSONResponse({"detail": "planted"}, status_code=service.failing[what].pop(0))
        is_json = request.headers.get("content-type", "").startswith("application/json")
        found = await run_in_threadpool(service.answer, what, body, await request.json() if is_json else {})
        if isinstance(found, bytes):
            return Response(found, media_type="application/x-protobuf")
        return found if isinstance(found, Response) else JSONResponse(found)

    def sampler(request: Request) -> Response:
        return JSONResponse({"sampler_id": request.path_params["name"], "base_model": service.model})

    def urls(request: Request) -> Response:
        run, export = request.path_params["run"], request.path_params["export"]
        files = sorted(path.name for path in (service.folder / run / export).iterdir())
        found = {file: f"{service.url}/files/{run}/{export}/{file}" for file in files}
        return JSONResponse({"urls": found, "expires": "2100-01-01T00:00:00Z"})

    def file(request: Request) -> Response:
        return FileResponse(service.folder / request.path_params["path"])

    return Starlette(
        routes=[
            Route("/api/v1/samplers/{name}", sampler),
            Route("/api/v1/training_runs/{run}/checkpoints/external_weights/{export}/external_weights_urls", urls),
            Route("/files/{path:path}", file),
            Route("/api/v1/{what:path}", post, methods=["POST"]),
        ]
    )


@contextmanager
def serving(service: TinkerService) -> Iterator[None]:
    """Serve on a free port of this machine for the block."""
    server = uvicorn.Server(uvicorn.Config(_app(service), host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        thread.join(0.01)
    service.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(10)
