"""The README's Python runs as it stands, block after block, in one session."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import lazyrich as lr

README = Path(__file__).parents[1] / "README.md"


def test_every_block_runs(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    W1, W2 = lr.inits.zero_balanced(0, sizes=(4, 5, 3), scale=0.1).weights
    session = {"inputs": rng.normal(size=(20, 4)), "targets": rng.normal(size=(20, 3)), "W1": W1, "W2": W2}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), session)
    assert len(blocks) >= 4
    assert (tmp_path / "modes.png").stat().st_size > 1000
    end, reached = (lr.bias.predicted_end, lr.bias.compare_with_flow)
    task = lr.Task.from_data([[0.5, 1.0]], [[1.1]])
    problem = lr.Problem(task, lr.inits.single_neuron([0.4, 0.05], delta=-2.0))
    assert np.abs(end(problem).beta - reached(problem).reached).max() < 1e-11  # 1e-12, the README says
