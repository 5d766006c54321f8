"""Guards: what watches a run while it trains, and what each finding does. docs/trust.md has the table.

`GuardConfig`    the bounds.
`Guards`         all of them, as a run holds them.
`load_batch`     reads a batch that could not be learned from.
"""

from algos.guards.config import GuardConfig
from algos.guards.guards import Guards, Mismatch
from algos.guards.saved_batch import load_batch, save_batch

__all__ = ["GuardConfig", "Guards", "Mismatch", "load_batch", "save_batch"]
