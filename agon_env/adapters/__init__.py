"""Views of a contest for other libraries: `agon_env.adapters.gymnasium`, `agon_env.adapters.pettingzoo`."""
