"""What the cost model counts with: the shapes of bases, and the rates that devices keep up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """A decoder-only transformer."""

    layers: int
    width: int
    mlp: int
    heads: int
    kv_heads: int
    head_width: int
    vocabulary: int
    tied: bool

    @property
    def block_weights(self) -> int:
        """Weights of the linear layers of all blocks."""
        attention = self.width * self.head_width * (2 * self.heads + 2 * self.kv_heads)
        return self.layers * (attention + 3 * self.width * self.mlp)

    @property
    def head_weights(self) -> int:
        """Weights of the projection to the vocabulary."""
        return self.width * self.vocabulary

    @property
    def weights(self) -> int:
        """All weights; those of the norms are left out."""
        return self.block_weights + self.head_weights * (1 if self.tied else 2)

    def adapter_weights(self, rank: int) -> int:
        """Weights of one LoRA adapter on all linear layers of the blocks."""
        q, kv = self.heads * self.head_width, self.kv_heads * self.head_width
        layer = 2 * (self.width + q) + 2 * (self.width + kv) + 3 * (self.width + self.mlp)
        return self.layers * rank * layer

    def attention_flops(self, context: float) -> float:
        """FLOPs of one token that attends to `context` others, in all layers."""
        return 4.0 * self.layers * self.heads * self.head_width * context

    def cache_bytes(self, tokens: float, bytes_each: int) -> float:
        """Keys and values of `tokens` tokens."""
        return 2.0 * self.layers * self.kv_heads * self.head_width * bytes_each * tokens


SHAPES: dict[str, Shape] = {
    "Qwen/Qwen3-1.7B": Shape(28, 2048, 6144, 16, 8, 128, 151_936, tied=True),
    "Qwen/Qwen3-8B": Shape(36, 4096, 12_288, 32, 8, 128, 151_936, tied=False),
    "Qwen/Qwen3-32B": Shape(64, 5120, 25_600, 64, 8, 128, 151_936, tied=False),
}


@dataclass(frozen=True)
class Hardware:
    """A device, with the rates that it keeps up."""

    name: str
    train_flops: float
    """FLOP/s of passes over many tokens at once."""
    decode_flops: float
    """FLOP/s of one token for each of many rows."""
    bandwidth: float
    """Bytes per second that are read from its memory."""
    memory: float
    """Bytes."""
    overhead: float
    """Seconds of each layer and decoding step beside the products: launching kernels, on a CPU everything small."""
    bytes_each: int = 2
    """Of a weight of the base, and of an activation."""
    held: float = 0.0
    """Bytes that are taken before a model is loaded: on a CPU, Python and its libraries."""
    turn: float = 0.0
    """Seconds of each turn beside the model: chat templates, the environment, the verifier."""


def gpu(name: str, *, peak: float, bandwidth: float, memory: float) -> Hardware:
    """Return a GPU of a data centre that trains at 40 % and decodes at 50 % of its peak, at 70 % of its bandwidth.

    Of its memory 90 % are used.
    """
    return Hardware(
        name,
        train_flops=0.4 * peak,
        decode_flops=0.5 * peak,
        bandwidth=0.7 * bandwidth,
        memory=0.9 * memory,
        overhead=15e-6,
        held=2e9,
        turn=1e-3,
    )


HARDWARE: dict[str, Hardware] = {
    "a100": gpu("A100 80 GB", peak=312e12, bandwidth=2.0e12, memory=80e9),
    "h100": gpu("H100 80 GB", peak=989e12, bandwidth=3.35e12, memory=80e9),
    "h200": gpu("H200 141 GB", peak=989e12, bandwidth=4.8e12, memory=141e9),
}
