"""The registry: contests by id, with the rules and the errors of Gymnasium.

An id reads `[namespace/]Name-vN`. `make` looks it up, copies the registered keyword arguments, lays the
caller's over them and builds the contest. Other distributions add contests through the entry-point group
`agon_env.envs`; each entry point leads to a function without arguments that calls `register`, or to a
`ContestSpec`. They are read when an id is first missed, never on import.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import inspect
import json
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

import gymnasium

from agon_env.errors import (
    DependencyNotInstalled,
    DeprecatedEnv,
    Error,
    NameNotFound,
    NamespaceNotFound,
    RegistrationError,
    UnregisteredEnv,
    VersionNotFound,
)
from agon_env.plugins import Plugins
from agon_env.types import FrozenDict

if TYPE_CHECKING:
    from agon_env.contest import Contest
    from agon_env.vector import VectorContest

_ID = re.compile(r"(?:(?P<namespace>[\w-]+)/)?(?P<name>[\w.-]+?)(?:-v(?P<version>\d+))?", re.ASCII)
_VERSION = re.compile(r"0|[1-9]\d{0,8}", re.ASCII)
_ALIKE = 0.75
"""How similar (0 to 1) a name must be to be suggested; Gymnasium's 0.6 offers Hopper for Nope."""


@dataclass(frozen=True)
class ContestSpec:
    """How to make one contest; what `register` keeps and `env.spec` holds."""

    id: str
    """`[namespace/]Name-vN`."""
    entry_point: str | Callable[..., Contest]
    """A class or function that returns a contest, or where it is: "module:attribute"."""
    kwargs: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Keyword arguments of the entry point. Lists, dicts and sets are copied, other objects are shared."""
    namespace: str | None = field(init=False, repr=False)
    name: str = field(init=False, repr=False)
    version: int | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        namespace, name, version = parse_id(self.id)
        object.__setattr__(self, "namespace", namespace)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "version", version)
        object.__setattr__(self, "kwargs", FrozenDict(_copy(dict(self.kwargs))))

    def make(self, **kwargs: Any) -> Contest:
        """Build the contest; `kwargs` override the registered ones and are recorded in its `spec`.

        Raises:
            TypeError: the entry point does not take one of the arguments.
        """
        registered = dict(self.kwargs)
        if kwargs.get("reward", "competitive") != "competitive":
            registered.pop("bonus", None)  # no other rule has one
        made = replace(self, kwargs={**registered, **kwargs})
        creator = self._creator()
        try:
            env = creator(**_copy(dict(made.kwargs)))
        except TypeError as error:
            raise TypeError(f"{self.id} can't be made: {error}. {_advice(creator, made.kwargs)}") from error
        env.spec = made
        return env

    def option_names(self) -> tuple[str, ...]:
        """Return the names of the arguments that `make` takes for this contest, apart from those of its task."""
        return tuple(_accepted(self._creator()))

    def summary(self) -> str:
        """Return the first line of the documentation of what makes the contest; empty if there is none."""
        return (inspect.getdoc(self._creator()) or "").partition("\n")[0]

    def to_json(self) -> str:
        """Return the spec as JSON.

        Raises:
            ValueError: the entry point is an object, or a keyword argument has no JSON form.
        """
        if not isinstance(self.entry_point, str):
            raise ValueError(f'the entry point of {self.id} is an object; register it as "module:attribute" to write its spec')
        return json.dumps({"id": self.id, "entry_point": self.entry_point, "kwargs": jsonable_kwargs(self.id, self.kwargs)})

    @staticmethod
    def from_json(text: str) -> ContestSpec:
        """Return the spec that `to_json` wrote."""
        return ContestSpec(**json.loads(text))

    def _creator(self) -> Callable[..., Contest]:
        if not isinstance(self.entry_point, str):
            return self.entry_point
        module, colon, attribute = self.entry_point.partition(":")
        if not colon:
            raise RegistrationError(f'the entry point of {self.id} must read "module:attribute", not {self.entry_point!r}')
        creator: Callable[..., Contest] = getattr(importlib.import_module(module), attribute)
        return creator


registry: dict[str, ContestSpec] = {}
"""Every registered contest by id; change it through `register`."""


def register(
    id: str,
    entry_point: str | Callable[..., Contest],
    *,
    kwargs: Mapping[str, Any] | None = None,
    force: bool = False,
) -> ContestSpec:
    """Register a contest under `id`, here and in Gymnasium (as "agon_env/<id>").

    Args:
        id: `[namespace/]Name-vN`.
        entry_point: a class or function that returns a `Contest`, or "module:attribute"; the latter is imported
            when the contest is first made, and can be written to transcripts and sent to other processes.
        kwargs: keyword arguments of the entry point.
        force: replace what is registered under that id.

    Raises:
        RegistrationError: the id is taken, or is unversioned while versions of it exist (or the other way round),
            or has the same id in Gymnasium as another.
    """
    return _add(ContestSpec(id, entry_point, kwargs or {}), force=force)


def register_lazily(namespace: str, provider: str) -> None:
    """Have a function register the contests of a namespace when one of them is first missed, or all are listed.

    Args:
        namespace: what stands before the "/" in their ids.
        provider: where the function is, "module:function". It may raise `DependencyNotInstalled`, which whoever asks for
            one of the contests is told; others are not bothered.
    """
    _providers[namespace] = provider


def spec(id: str) -> ContestSpec:
    """Return the spec registered under `id`.

    Args:
        id: `[namespace/]Name-vN`. Without `-vN` the latest version is meant, with a warning. "module:Name-vN"
            imports the module first.

    Raises:
        NamespaceNotFound, NameNotFound, VersionNotFound, DeprecatedEnv: there is no such contest; the message
            says which is near, or what to import or install.
        UnregisteredEnv: there is no such module.
    """
    return _find(id, stacklevel=3)


def make(id: str | ContestSpec, /, **kwargs: Any) -> Contest:
    """Build the contest `id`; `kwargs` override its registered arguments.

    Raises:
        UnregisteredEnv: see `spec`.
        TypeError: the contest does not take one of the arguments; the message names those that it takes.
    """
    return _resolve(id).make(**kwargs)


def make_vec(id: str | ContestSpec, /, n: int, **kwargs: Any) -> VectorContest:
    """Build `n` contests that run in lockstep; see `VectorContest`."""
    from agon_env.vector import VectorContest

    if n < 1:
        raise ValueError(f"make_vec needs at least one contest, not {n}")
    resolved = _resolve(id)
    return VectorContest([resolved.make(**kwargs) for _ in range(n)])


def list_envs() -> list[str]:
    """Return the ids of all contests, those of plug-ins too. What failed to load is in `broken_plugins()`."""
    _plugins.load()
    for namespace in list(_providers):
        with contextlib.suppress(DependencyNotInstalled):
            _provide(namespace)
    return sorted(registry)


def broken_plugins() -> dict[str, str]:
    """Return the plug-ins that could not be loaded: name of the entry point → reason."""
    _plugins.load()
    return dict(_plugins.broken)


def parse_id(id: str) -> tuple[str | None, str, int | None]:
    """Split an id into namespace, name and version.

    Raises:
        Error: the id is malformed.
    """
    match = _ID.fullmatch(id) if isinstance(id, str) else None
    if match is None:
        raise Error(f"malformed id {id!r}: an id reads [namespace/]Name-vN, for example DeepMathDuel-v0")
    version = match["version"]
    if version is not None and not _VERSION.fullmatch(version):
        shown = version if len(version) < 20 else f"{version[:20]}…"
        raise Error(f"malformed id: the version {shown} must be a number below 10**9 without leading zeros")
    return match["namespace"], match["name"], None if version is None else int(version)


def jsonable_kwargs(id: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return `kwargs` as plain JSON values.

    Raises:
        ValueError: one of them has no JSON form; the message names it.
    """
    plain = {}
    for key, value in kwargs.items():
        try:
            plain[key] = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"the argument {key}={value!r} of {id} can't be written as JSON ({error}); "
                f"the contest works, but to record it pass {key} by name or as plain values",
            ) from error
    return plain


# --- how it works -----------------------------------------------------------------------------------


def _resolve(id: str | ContestSpec) -> ContestSpec:
    if isinstance(id, ContestSpec):
        return id
    return _find(id, stacklevel=4)


def _find(id: str, *, stacklevel: int) -> ContestSpec:
    if isinstance(id, str) and ":" in id:
        module, _, id = id.partition(":")
        _import_module(module)
    namespace, name, version = parse_id(id)
    if id not in registry:
        _plugins.load()
        _provide(namespace)
    versions = _versions(namespace, name)
    latest = max((v for v in versions if v is not None), default=None)
    if version is None and latest is not None:
        found = versions[latest]
        warnings.warn(f"using the latest version {found.id}, since {id} names none", UserWarning, stacklevel=stacklevel)
        return found
    if version not in versions:
        _raise_not_found(namespace, name, version)
    if version is not None and latest is not None and version < latest:
        message = f"{id} is out of date; consider {versions[latest].id}"
        warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)
    return versions[version]


_providers: dict[str, str] = {}
"""Namespace → the function that registers its contests, once."""


def _provide(namespace: str | None) -> None:
    if namespace in _providers and not any(known.namespace == namespace for known in registry.values()):
        module, _, function = _providers[namespace].partition(":")
        getattr(importlib.import_module(module), function)()


def _import_module(name: str) -> None:
    try:
        if not all(name.split(".")):
            raise ModuleNotFoundError(f"{name!r} can't name a module", name=name)
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there, but lacks something itself
        raise UnregisteredEnv(
            f"there is no module {name!r} ({error}); an id reads [module:][namespace/]Name-vN, and the module must be "
            "installed or stand in a folder of PYTHONPATH"
        ) from error


def _versions(namespace: str | None, name: str) -> dict[int | None, ContestSpec]:
    return {s.version: s for s in registry.values() if (s.namespace, s.name) == (namespace, name)}


def _raise_not_found(namespace: str | None, name: str, version: int | None) -> NoReturn:
    wanted = f"{namespace}/{name}" if namespace else name
    versions = [v for v in _versions(namespace, name) if v is not None]
    if versions and version is not None:
        if version < max(versions):
            raise DeprecatedEnv(f"{wanted}-v{version} has been removed; use {wanted}-v{max(versions)}")
        raise VersionNotFound(f"{wanted} has no version v{version}; there is {', '.join(f'v{v}' for v in sorted(versions))}")
    if version is not None and _versions(namespace, name):
        raise VersionNotFound(f"{wanted} has no versions; use {wanted}")
    namespaces = {s.namespace for s in registry.values() if s.namespace}
    if namespace is not None and namespace not in namespaces:
        raise NamespaceNotFound(
            f"there is no namespace {namespace}.{_did_you_mean(namespace, sorted(namespaces))} Import or install the package "
            f'that registers it, or name its module: make("the_module:{wanted}-v0").{_plugins.complaints()}',
        )
    names = sorted({s.id for s in registry.values()}, key=lambda id: (parse_id(id)[0] != namespace, id))
    id = wanted if version is None else f"{wanted}-v{version}"
    raise NameNotFound(
        f"there is no contest {wanted}.{_did_you_mean(name, names)} If a module of yours registers it, import that first, or "
        f"name it in the id: the_module:{id}.{_plugins.complaints()}"
    )


def _did_you_mean(wanted: str, choices: list[str]) -> str:
    folded: dict[str, str] = {}
    for choice in choices:
        folded.setdefault(_fold(parse_id(choice)[1]), choice)
    near = difflib.get_close_matches(_fold(wanted), folded, n=1, cutoff=_ALIKE)
    return f" Did you mean {folded[near[0]]}?" if near else ""


def _fold(name: str) -> str:
    return re.sub(r"[-_.]", "", name).casefold()


def _add(new: ContestSpec, *, force: bool) -> ContestSpec:
    known = registry.get(new.id)
    if known is not None and not force:
        if _plugins.reading and known == new:  # the plug-in's module was imported by hand before
            return known
        raise RegistrationError(f"{new.id} is registered already; pass force=True to replace it, or raise its version")
    for version, other in _versions(new.namespace, new.name).items():
        if (version is None) != (new.version is None):
            raise RegistrationError(f"can't register {new.id} beside {other.id}: either all or none of a name have versions")
    mirrored = _mirrored(new.id)
    for id in registry:
        if id != new.id and _mirrored(id) == mirrored:
            raise RegistrationError(f"can't register {new.id} beside {id}: both would be {mirrored} in Gymnasium; rename one")
    registry[new.id] = new
    _mirror_in_gymnasium(new.id)
    return new


def _mirrored(id: str) -> str:
    return "agon_env/" + id.replace("/", ".")  # Gymnasium has one level of namespaces


def _mirror_in_gymnasium(id: str) -> None:
    gymnasium.registry.pop(_mirrored(id), None)
    gymnasium.register(_mirrored(id), entry_point="agon_env.adapters.gymnasium:make_gymnasium", kwargs={"contest": id})


def _accept_plugin(name: str, loaded: Any) -> None:
    if isinstance(loaded, ContestSpec):
        _add(loaded, force=False)
    elif callable(loaded):
        loaded()
    else:
        raise TypeError(f"the entry point {name} must lead to a function that registers, or to a ContestSpec, not {loaded!r}")


_plugins = Plugins("agon_env.envs", _accept_plugin)


def _copy(value: Any) -> Any:
    # Objects stay shared: a task may be large, and a generator can't be copied at all.
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(_copy(item) for item in value)
    return value


def _advice(creator: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """Return what `creator` accepts, and which of the arguments `given` are for `reset` instead."""
    accepted = _accepted(creator)
    later = [name for name in given if name not in accepted and name in getattr(creator, "option_names", ())]
    advice = f"It accepts {', '.join(accepted) or 'no arguments'}."
    return f"{advice} {later[0]!r} is an option of reset(): env.reset(options={{{later[0]!r}: …}})." if later else advice


def _accepted(creator: Callable[..., Any]) -> list[str]:
    """Return the names of the keyword arguments that `creator` takes, its base classes' included."""
    functions = (
        [vars(c)["__init__"] for c in creator.__mro__ if "__init__" in vars(c)] if inspect.isclass(creator) else [creator]
    )
    names: dict[str, None] = {}
    for function in functions:
        parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
        names.update(dict.fromkeys(p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)))
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return list(names)
