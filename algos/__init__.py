"""The learning: rollouts, advantages, losses, the trainer. It knows players and roles, never the game."""

import agents

if not getattr(agents, "__agon_env__", False):
    raise ImportError(
        f"the package `agents` that Python finds, at {agents.__file__}, is not the one of agon-env: another distribution "
        "installs a package of that name. Use a virtual environment without it, or put agon-env first on sys.path."
    )
