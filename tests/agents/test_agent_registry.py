"""Players by name."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

import agents
from agents import registry
from agents.policy import LLMPolicy
from agon_env.errors import Error, NameNotFound, RegistrationError
from agon_env.plugins import Plugins
from agon_env.types import Action, Observation


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))


class Echo(agents.Agent):
    """Says one word.

    And nothing else.
    """

    def __init__(self, word: str = "echo", *, times: int = 1) -> None:
        self.word = word * times

    def act(self, observations):
        return [Action(self.word) for _ in observations]


OBSERVATION = Observation("alice", "solver")


def test_players_are_made_by_name_with_argument_and_options() -> None:
    agents.register("echo", Echo)
    assert agents.make("echo")(OBSERVATION).text == "echo"
    assert agents.make("echo:a:b", times=2)(OBSERVATION).text == "a:ba:b"
    assert agents.list_agents()["echo"] == "Says one word."
    agents.register("other", "module:attribute", description="what it is")
    assert agents.list_agents()["other"] == "what it is"
    assert all(agents.list_agents().values())
    assert {"random", "oracle", "human", "hf", "embedded"} <= agents.list_agents().keys()
    assert isinstance(agents.make("random", seed=1), agents.Random)


def test_wrong_names_and_arguments_say_what_is_wrong() -> None:
    with pytest.raises(NameNotFound, match="Did you mean 'random'"):
        agents.make("randon")
    with pytest.raises(NameNotFound, match="oracle"):
        agents.make("nothing like it")
    with pytest.raises(Error, match="can't be made"):
        agents.make("copycat", volume=3)
    with pytest.raises(Error, match="can't be made"):
        agents.make("random", volume=3)
    agents.register("number", lambda: 3)
    with pytest.raises(Error, match=r"int.*agents\.Agent"):
        agents.make("number")


def test_an_error_within_a_maker_is_shown_as_it_is() -> None:
    def broken() -> agents.Agent:
        raise TypeError("inside")

    agents.register("broken", broken)
    with pytest.raises(TypeError, match=r"^inside$"):
        agents.make("broken")


def test_names_are_taken_once() -> None:
    agents.register("echo", Echo)
    with pytest.raises(RegistrationError, match="already"):
        agents.register("echo", Echo)
    agents.register("echo", lambda: Echo("other"), force=True)
    assert agents.make("echo")(OBSERVATION).text == "other"
    for name in ("", "a:b", "a b"):
        with pytest.raises(RegistrationError):
            agents.register(name, Echo)


def test_plugins_are_read_on_the_first_miss_and_broken_ones_harm_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    group = "agon_env.agents"
    points = [
        EntryPoint("loud", f"{__name__}:Echo", group),
        EntryPoint("broken", "no_such_module:thing", group),
        EntryPoint("random", f"{__name__}:Echo", group),
        EntryPoint("text", f"{__name__}:__name__", group),
    ]
    read: list[str] = []
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: read.append(group) or points)
    monkeypatch.setattr(registry, "_plugins", Plugins(group, registry._accept))
    agents.make("random")
    assert not read
    assert agents.make("loud:hey")(OBSERVATION).text == "hey"
    assert read == [group]
    broken = agents.broken_plugins()
    assert broken.keys() == {"broken", "random", "text"}
    assert "no_such_module" in broken["broken"]
    assert isinstance(agents.make("random"), agents.Random)
    with pytest.raises(NameNotFound, match="no_such_module"):
        agents.make("quiet")


def test_hf_loads_a_folder(tmp_path) -> None:
    from tiny_models import tiny_base

    base = tiny_base()
    base.model.save_pretrained(tmp_path / "model")
    base.tokenizer.save_pretrained(tmp_path / "model")
    base.policy("alice", rank=2)
    base.save("alice", tmp_path / "alice")
    params = agents.SamplingParams(max_tokens=4, temperature=0)
    bare = agents.make(f"hf:{tmp_path / 'model'}", params=params)
    trained = agents.make(f"hf:{tmp_path / 'model'}", adapter=tmp_path / "alice", params=params)
    assert isinstance(bare, LLMPolicy)
    assert (bare.name, trained.name) == ("base", "player")
    obs = Observation("alice", "solver", ({"role": "user", "content": "Hello."},))
    assert bare(obs) == trained(obs) == base.policy(params=params)(obs)


def test_importing_agents_loads_no_torch_and_carries_a_mark() -> None:
    code = (
        "import sys, agents; assert agents.__agon_env__ is True; agents.make('random'); agents.list_agents(); "
        "heavy = {'torch', 'transformers', 'peft'} & set(sys.modules); assert not heavy, heavy; "
        "agents.SamplingParams; assert 'LLMPolicy' in dir(agents)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_can_be_had() -> None:
    for name in agents.__all__:
        assert getattr(agents, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        _ = agents.nothing
