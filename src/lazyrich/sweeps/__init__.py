"""Grids of problems, from one laptop to a cluster: declared, computed in blocks, stored, resumed.

`grid` says what cells and blocks are, `sweep` what a sweep is, `problems` which problems it can name, `designs`
which tables of values; `compute` makes the numbers of one block (with `measure` and `fields`, within `limits`),
`estimate` says what all of them will take. `store` keeps them: a `folder` with its `configuration`, one of the
`records` for each block, and the chunks in their `layout`, on `disk`. `run` goes through the blocks, here (`local`) or
elsewhere (`cluster`, `slurm`), each with a claim (`claims`) and by one code (`fingerprint`, which has `sources`), and
tells whoever follows it (`telling`).
"""

from lazyrich.sweeps.designs import sobol, uniform
from lazyrich.sweeps.grid import Block
from lazyrich.sweeps.problems import Cell
from lazyrich.sweeps.run import Summary, run
from lazyrich.sweeps.store import Damage, failures, verify
from lazyrich.sweeps.store import open_store as open
from lazyrich.sweeps.sweep import Sweep
from lazyrich.sweeps.telling import Finished

__all__ = [
    "Block",
    "Cell",
    "Damage",
    "Finished",
    "Summary",
    "Sweep",
    "failures",
    "open",
    "run",
    "sobol",
    "uniform",
    "verify",
]
