"""The embedded model: a tiny Qwen3 that reasons about `Arithmetic`, for runs without a GPU and without a network.

An ordinary Hugging Face folder: `AutoModelForCausalLM.from_pretrained(agents.embedded.path())`.
`python -m agents.embedded.make` makes it again from nothing.
"""

from pathlib import Path


def path() -> Path:
    """Return the folder of the embedded model."""
    return Path(__file__).parent / "model"
