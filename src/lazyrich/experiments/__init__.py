"""Deep and nonlinear networks of the literature: four experiments, and how lazy or rich a run of your own was.

`kinds` says what an experiment is, `rhm`, `grokking`, `kernel` and `filters` are the four, `loop` trains their
networks, `experiment` makes a grid of them (stored, run and resumed as sweeps are), `data` holds images, `tangent`
compares tangent kernels in blocks, and `laziness` measures checkpoints of any JAX or PyTorch model.
"""

from lazyrich.experiments.data import download, images
from lazyrich.experiments.experiment import Experiment, preset
from lazyrich.experiments.kinds import Report
from lazyrich.experiments.laziness import Laziness, laziness, rescaled
from lazyrich.sweeps.run import run
from lazyrich.sweeps.store import open_store as open

__all__ = [
    "Experiment",
    "Laziness",
    "Report",
    "download",
    "images",
    "laziness",
    "open",
    "preset",
    "rescaled",
    "run",
]
