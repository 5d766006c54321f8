"""The errors of language-model agents. Each says what is wrong and what to do."""

from gymnasium.error import DependencyNotInstalled, Error

__all__ = [
    "AdapterError",
    "AdapterMismatch",
    "AdapterNotServed",
    "AdapterSwitched",
    "ChatTemplateFailed",
    "ChatTemplateMissing",
    "DependencyNotInstalled",
    "DeviceNotFound",
    "Error",
    "MalformedActions",
    "ModelNotFound",
    "PromptTooLong",
    "ServerFailed",
]


class AdapterError(Error, ValueError):
    """An adapter's name can't be used, is taken, or is unknown."""


class AdapterMismatch(Error):
    """A saved adapter does not fit the one that it should be loaded into."""


class AdapterNotServed(Error, RuntimeError):
    """A server that was sent an adapter samples with another one; what it says may not be learned from."""


class AdapterSwitched(Error, RuntimeError):
    """A backward pass met another active adapter than its forward pass; its gradients would be silently wrong."""


class ChatTemplateFailed(Error, RuntimeError):
    """The chat template does not make a prompt of the messages, but raises."""


class ChatTemplateMissing(Error):
    """The tokenizer has no chat template, so messages can't be turned into a prompt."""


class DeviceNotFound(Error):
    """There is no such device, or torch can't use it."""


class MalformedActions(Error, TypeError, ValueError):
    """An agent's `act` did not return one action for each observation."""


class ModelNotFound(Error):
    """There is no model at the given folder, and no hub to ask."""


class PromptTooLong(Error, ValueError):
    """A prompt leaves no room for its completion in the model's context."""


class ServerFailed(Error, RuntimeError):
    """A server did not answer for a model, or refused the request."""
