"""Observations and outcomes are values: frozen, copied, compared."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import pytest

from agon_env.types import FrozenDict, Observation, freeze


def test_frozen_values_can_not_be_changed_but_copied():
    frozen = freeze({"a": [1, {"b": 2}]})
    assert frozen == {"a": (1, {"b": 2})}
    for change in (lambda: frozen.update(a=1), lambda: frozen.pop("a"), lambda: frozen["a"][1].clear(), frozen.popitem):
        with pytest.raises(TypeError, match="dict"):
            change()
    with pytest.raises(TypeError, match="dict"):
        frozen |= {"c": 1}
    for twin in (copy.copy(frozen), copy.deepcopy(frozen), pickle.loads(pickle.dumps(frozen))):
        assert twin == frozen
        assert isinstance(twin, FrozenDict)


def test_an_observation_has_the_text_of_all_messages():
    obs = Observation("a", "r", ({"role": "system", "content": "x"}, {"role": "user", "content": "y"}))
    assert obs.text == "x\n\ny"


def test_an_observation_is_not_changed_through_its_messages():
    said = {"role": "user", "content": "x"}
    for obs in (Observation("a", "r", (said,)), Observation("a", "r", "x")):
        obs.messages[0]["content"] = "spoilt"
        said["content"] = "spoilt"
        assert obs.messages == ({"role": "user", "content": "x"},)
        assert obs.text == "x"
        said["content"] = "x"
        for twin in (copy.copy(obs), copy.deepcopy(obs), pickle.loads(pickle.dumps(obs)), replace(obs)):
            assert twin == obs
        assert replace(obs, role="s").messages == obs.messages
        assert replace(obs, messages=[]) == Observation("a", "r") != obs
        with pytest.raises(FrozenInstanceError):
            obs.messages = ()
