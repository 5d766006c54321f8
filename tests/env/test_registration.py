"""Ids, versions, arguments, specs and plug-ins."""

from __future__ import annotations

import importlib.metadata
import json
import warnings
from importlib.metadata import EntryPoint

import pytest

import agon_env
from agon_env import plugins, registration
from agon_env.contest import Contest
from agon_env.errors import (
    DeprecatedEnv,
    Error,
    NameNotFound,
    NamespaceNotFound,
    RegistrationError,
    TranscriptError,
    UnregisteredEnv,
    VersionNotFound,
)
from agon_env.registration import ContestSpec, make, parse_id, register, spec


class Echo(Contest):
    """Says back what it hears; takes a list, to see whether it is shared."""

    roles = ("speaker",)

    def __init__(self, words: list[str] | None = None, *, loud: bool = False, **options: object) -> None:
        super().__init__(**options)
        self.words = words

    def setup(self, rng, options):
        self.heard = ""

    def prompt(self, role):
        return "Speak."

    def apply(self, role, text):
        self.heard = text

    def score(self):
        return {"speaker": 1.0}


@pytest.fixture(autouse=True)
def clean_registry(monkeypatch):
    """Every test has the registries for itself, and no plug-ins but its own."""
    import gymnasium

    monkeypatch.setattr(registration, "registry", saved := dict(registration.registry))
    monkeypatch.setattr(agon_env, "registry", saved)
    monkeypatch.setattr(registration, "_plugins", plugins.Plugins("agon_env.envs", registration._accept_plugin))
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda *, group: [])
    before = dict(gymnasium.registry)
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


def install(monkeypatch, **points: str) -> list[str]:
    """Pretend that distributions with these entry points are installed; the returned list records the look-ups."""
    looked: list[str] = []

    def entry_points(*, group: str) -> list[EntryPoint]:
        looked.append(group)
        return [EntryPoint(name, value, group) for name, value in points.items()]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    return looked


def register_plugin() -> None:
    register("plug/Echo-v0", Echo)


def register_then_fail() -> None:
    raise OSError("the licence has run out")


PLUGIN_SPEC = ContestSpec("plug/Spec-v0", f"{__name__}:Echo")
NOT_A_PLUGIN = 3


# --- ids --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "parts"),
    [
        ("Duel-v0", (None, "Duel", 0)),
        ("Duel", (None, "Duel", None)),
        ("space/Duel-v12", ("space", "Duel", 12)),
        ("a-b/Tic-Tac-Toe-v1", ("a-b", "Tic-Tac-Toe", 1)),
        ("Duel-v", (None, "Duel-v", None)),
    ],
)
def test_ids_are_parsed(id, parts):
    assert parse_id(id) == parts


@pytest.mark.parametrize("id", ["", "bad id!", "a/b/c-v0", "/x-v0", "Duel-v0\n", "é-v0", None, 3])
def test_malformed_ids_are_refused(id):
    with pytest.raises(Error, match="malformed id"):
        parse_id(id)


@pytest.mark.parametrize("version", ["01", "00", "0000000001", "1" * 10, "9" * 5000])
def test_one_version_has_one_spelling(version):
    for call in (parse_id, make, lambda id: register(id, Echo)):
        with pytest.raises(Error, match="leading zeros") as caught:
            call(f"Duel-v{version}")
        assert len(str(caught.value)) < 200


@pytest.mark.parametrize(("first", "second"), [("a.b-v0", "a/b-v0"), ("a/b.c-v0", "a.b.c-v0")])
def test_two_contests_do_not_share_an_id_in_gymnasium(first, second):
    import gymnasium

    register(first, Echo)
    for force in (False, True):
        with pytest.raises(RegistrationError, match="Gymnasium"):
            register(second, Echo, force=force)
    assert second not in agon_env.registry
    assert gymnasium.spec("agon_env/" + first.replace("/", ".")).kwargs == {"contest": first}
    register(first, Echo, force=True)


def test_every_registered_contest_can_be_made_without_arguments():
    own = [id for id in agon_env.registry if not id.startswith("TextArena/")]  # some of those need a key, or a word list
    for id in own:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            env = agon_env.make(id)
        assert env.spec.id == id
        assert env.spec.kwargs == agon_env.spec(id).kwargs


def test_the_first_contests_are_registered():
    assert {"ArithmeticSolo-v0", "ArithmeticDuel-v0", "DeepMathSolo-v0", "DeepMathDuel-v0"} <= set(agon_env.list_envs())


@pytest.mark.parametrize(
    ("id", "error", "hint"),
    [
        ("DeepMathDual-v0", NameNotFound, "Did you mean DeepMathDuel-v0?"),
        ("deepmath_duel-v0", NameNotFound, "Did you mean DeepMathDuel-v0?"),
        ("Mine-v3", NameNotFound, "name it in the id: the_module:Mine-v3."),
        ("agon/DeepMathDuel-v0", NamespaceNotFound, "Import or install the package"),
        ("spacee/Echo-v0", NamespaceNotFound, "Did you mean space?"),
        ("space/Ecco-v1", NameNotFound, "Did you mean space/Echo-v"),
        ("space/Echo-v7", VersionNotFound, "there is v1, v2"),
        ("space/Echo-v0", DeprecatedEnv, "use space/Echo-v2"),
        ("Plain-v1", VersionNotFound, "use Plain"),
    ],
)
def test_a_miss_says_what_is_near(id, error, hint):
    for known in ("space/Echo-v1", "space/Echo-v2", "Plain"):
        register(known, Echo)
    with pytest.raises(error, match=r"there is no|has no version|has been removed|has no versions") as caught:
        make(id)
    assert hint in str(caught.value)


def test_a_far_miss_suggests_nothing_and_does_not_list_the_registry():
    with pytest.raises(NameNotFound) as caught:
        make("Nope-v0")
    assert "Did you mean" not in str(caught.value)
    assert "the_module:Nope-v0" in str(caught.value)
    assert not any(id in str(caught.value) for id in agon_env.registry)


def test_all_misses_are_unregistered_envs():
    for id in ("Nope-v0", "nope/Nope-v0", "DeepMathDuel-v9"):
        with pytest.raises(UnregisteredEnv):
            spec(id)


def test_an_old_version_works_with_a_warning_at_the_caller():
    register("Echo-v1", Echo)
    register("Echo-v2", Echo)
    with pytest.warns(DeprecationWarning, match="consider Echo-v2") as caught:
        assert make("Echo-v1").spec.id == "Echo-v1"
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make("Echo-v2")


def test_no_version_means_the_latest_with_a_warning_at_the_caller():
    for version in (9, 10, 2):
        register(f"Echo-v{version}", Echo)
    for call in (make, spec, lambda id: agon_env.make_vec(id, 1)):
        with pytest.warns(UserWarning, match="latest version Echo-v10") as caught:
            call("Echo")
        assert caught[0].filename == __file__


def test_an_id_is_registered_once():
    register("Echo-v1", Echo, kwargs={"loud": False})
    with pytest.raises(RegistrationError, match="force=True"):
        register("Echo-v1", Echo)
    register("Echo-v1", Echo, kwargs={"loud": True}, force=True)
    assert spec("Echo-v1").kwargs == {"loud": True}


@pytest.mark.parametrize(("first", "second"), [("Echo", "Echo-v1"), ("Echo-v1", "Echo")])
def test_versioned_and_unversioned_do_not_mix(first, second):
    register(first, Echo)
    with pytest.raises(RegistrationError, match="either all or none"):
        register(second, Echo)


def test_a_module_may_be_named_before_the_id(tmp_path, monkeypatch):
    (tmp_path / "late_games.py").write_text(
        f"import agon_env\nagon_env.register('late/Echo-v0', '{__name__}:Echo')\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(NamespaceNotFound):
        make("late/Echo-v0")
    assert make("late_games:late/Echo-v0").spec.id == "late/Echo-v0"


@pytest.mark.parametrize("module", ["no_such_module", "json.no_such_module", "", ".json", "json..decoder"])
def test_a_module_that_is_not_there_is_named(module):
    with pytest.raises(UnregisteredEnv, match="there is no module") as caught:
        make(f"{module}:Echo-v0")
    assert repr(module) in str(caught.value)


def test_what_a_module_lacks_itself_is_not_taken_for_the_module(tmp_path, monkeypatch):
    (tmp_path / "needy_games.py").write_text("import no_such_dependency\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        make("needy_games:Echo-v0")


# --- arguments --------------------------------------------------------------------------------------


def test_arguments_are_laid_over_the_registered_ones_and_recorded():
    register("Echo-v1", Echo, kwargs={"words": ["a"], "loud": True})
    env = make("Echo-v1", words=["b"])
    assert env.words == ["b"]
    assert env.spec.kwargs == {"words": ["b"], "loud": True}
    assert spec("Echo-v1").kwargs == {"words": ["a"], "loud": True}


def test_two_contests_share_no_argument():
    words = ["a"]
    register("Echo-v1", Echo, kwargs={"words": words})
    one, two = make("Echo-v1"), make("Echo-v1")
    words.append("from outside")
    one.words.append("from one")
    assert two.words == ["a"]
    assert make("Echo-v1").words == ["a"]
    assert one.spec.kwargs == {"words": ["a"]}
    mine = ["mine"]
    three = make("Echo-v1", words=mine)
    mine.append("later")
    assert three.words == ["mine"]
    assert three.spec.kwargs["words"] == ["mine"]


def test_a_spec_can_not_be_changed():
    register("Echo-v1", Echo, kwargs={"words": ["a"]})
    with pytest.raises(TypeError, match="can't be changed"):
        spec("Echo-v1").kwargs["words"] = []
    with pytest.raises(AttributeError):
        spec("Echo-v1").id = "Other-v1"


def test_an_unknown_argument_is_named_with_the_accepted_ones():
    register("Echo-v1", Echo)
    with pytest.raises(TypeError) as caught:
        make("Echo-v1", volume=11)
    for word in ("Echo-v1", "volume", "words", "loud", "players", "roles", "reward"):
        assert word in str(caught.value)


def test_a_spec_knows_the_arguments_of_its_contest():
    assert {"task", "reveal", "reward", "players"} <= set(spec("ArithmeticDuel-v0").option_names())
    assert "reveal" not in spec("ArithmeticSolo-v0").option_names()


class Race(Echo):
    option_names = frozenset({"goal", "loud"})


def test_an_option_of_reset_given_to_make_is_told_where_it_belongs():
    register("Race-v1", Race)
    with pytest.raises(TypeError, match=r"'goal' is an option of reset\(\): env.reset\(options=\{'goal': …\}\)"):
        make("Race-v1", goal=3)
    with pytest.raises(TypeError, match="'index' is an option of reset"):
        make("ArithmeticDuel-v0", index=3)
    with pytest.raises(TypeError) as caught:
        make("Race-v1", loud=True, volume=3)
    assert "reset" not in str(caught.value)


@pytest.mark.parametrize("id", ["ArithmeticDuel-v0", "DeepMathDuel-v0"])
def test_an_unknown_task_option_names_the_id_and_the_option(id):
    with pytest.raises(TypeError) as caught:
        make(id, dificulty=3)
    assert id in str(caught.value)
    assert "dificulty" in str(caught.value)


def test_make_vec_needs_a_contest():
    with pytest.raises(ValueError, match="at least one"):
        agon_env.make_vec("ArithmeticDuel-v0", 0)


@pytest.mark.parametrize("id", ["DeepMathDuel-v0", "DeepMathSolo-v0"])
def test_the_embedded_sample_is_named_in_a_warning_at_each_make_and_in_info(id):
    for _ in range(2):
        with pytest.warns(UserWarning, match="embedded sample") as caught:
            env = make(id)
        assert len(caught) == 1
    _, info = env.reset(seed=0)
    assert "embedded sample" in info["source"]
    assert "embedded sample" in env.transcript.header.details["source"]


# --- specs ------------------------------------------------------------------------------------------


def test_a_spec_survives_json():
    original = make("ArithmeticDuel-v0", bonus=0.25, reveal="nothing").spec
    back = ContestSpec.from_json(original.to_json())
    assert back == original
    assert back.make().spec == original
    assert json.loads(original.to_json())["kwargs"]["bonus"] == 0.25


def test_a_spec_with_an_object_for_an_entry_point_says_how_to_write_it():
    register("Echo-v1", Echo)
    with pytest.raises(ValueError, match="module:attribute"):
        spec("Echo-v1").to_json()


def test_an_argument_without_json_form_leaves_the_contest_usable(tmp_path):
    register("Echo-v1", f"{__name__}:Echo", kwargs={"words": (word for word in "ab")})
    env = make("Echo-v1")
    env.reset(seed=0)
    env.step("hello")
    assert env.outcome.rewards == {"alice": 1.0}
    assert "Echo-v1" in repr(env.spec)
    with pytest.raises(ValueError, match="argument words="):
        env.spec.to_json()
    with pytest.raises(TranscriptError, match="argument words="):
        env.transcript.save(tmp_path / "t.jsonl")
    assert not (tmp_path / "t.jsonl").exists()


def test_an_entry_point_must_name_an_attribute():
    register("Echo-v1", "just_a_module")
    with pytest.raises(RegistrationError, match="module:attribute"):
        make("Echo-v1")


# --- plug-ins ---------------------------------------------------------------------------------------


def test_plugins_are_read_on_the_first_miss_and_only_once(monkeypatch):
    looked = install(monkeypatch, mine=f"{__name__}:register_plugin", spec=f"{__name__}:PLUGIN_SPEC")
    make("ArithmeticSolo-v0")
    assert looked == []
    assert make("plug/Echo-v0").spec.id == "plug/Echo-v0"
    assert make("plug/Spec-v0").spec.id == "plug/Spec-v0"
    with pytest.raises(NameNotFound):
        make("Nope-v0")
    assert looked == ["agon_env.envs"]
    assert agon_env.broken_plugins() == {}


def test_a_broken_plugin_harms_nobody_and_is_listed(monkeypatch):
    install(
        monkeypatch,
        absent="no_such_module:register",
        failing=f"{__name__}:register_then_fail",
        number=f"{__name__}:NOT_A_PLUGIN",
        working=f"{__name__}:register_plugin",
    )
    assert "plug/Echo-v0" in agon_env.list_envs()
    broken = agon_env.broken_plugins()
    assert set(broken) == {"absent", "failing", "number"}
    assert "ModuleNotFoundError" in broken["absent"]
    assert "the licence has run out" in broken["failing"]
    with pytest.raises(NamespaceNotFound, match=r"failing .*the licence has run out"):
        make("other/Echo-v0")


def test_a_plugin_whose_module_was_imported_by_hand_is_not_broken(monkeypatch):
    register_plugin()
    install(monkeypatch, mine=f"{__name__}:register_plugin")
    agon_env.list_envs()
    assert agon_env.broken_plugins() == {}


def test_a_plugin_can_not_take_the_id_of_another(monkeypatch):
    register("plug/Echo-v0", Echo, kwargs={"loud": True})
    install(monkeypatch, mine=f"{__name__}:register_plugin")
    agon_env.list_envs()
    assert "registered already" in agon_env.broken_plugins()["mine"]
    assert spec("plug/Echo-v0").kwargs == {"loud": True}


@pytest.mark.parametrize(
    ("id", "option"), [("ArithmeticDuel-v0", "task"), ("ArithmeticDuel-v0", "reward"), ("CodeDuel-v0", "verifier")]
)
@pytest.mark.parametrize("value", [{"python": "/bin/sh"}, [1], 3, True])
def test_what_a_file_gives_in_place_of_an_object_is_refused(id: str, option: str, value: object) -> None:
    with pytest.raises(TypeError, match=r"can't be made: .* (rule|task|verifier)"):
        agon_env.make(id, **{option: value})
