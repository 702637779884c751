"""A paper: what its room holds, by name. Nothing of it is loaded before it is asked for, and importing a room registers
nothing anywhere.

    papers/<key>/__init__.py            PAPER: a `Paper`
                 README.md              what of the paper is where
                 formulas.py            its theorems to the letter, as plain functions of arrays
                 claims/<topic>.py      claims, and what was judged not checkable (NOT_CHECKED)
                 figures/fig_<name>.py  FIGURE: a `Figure`
                 experiments/<name>.py  KIND: a `Kind`, with its sizes in experiments/presets/<name>-<size>.toml
                 sweeps/<name>.toml     published sweeps
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from lazyrich.papers.base.claim import Claim, NotChecked
from lazyrich.papers.base.figure import Figure
from lazyrich.papers.base.kind import Kind

_ROOMS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Paper:
    """One source. `lazyrich figure|claims|experiment|sweep` and the documentation read this.

    >>> paper = lr.papers.paper("saxe2014")
    >>> paper.authors, sorted(paper.claims()), sorted(paper.figure_names)
    ('Saxe, McClelland, Ganguli 2014', ['saxe2014/equations-25-26'], ['3', 'delay', 'depth'])
    """

    key: str
    authors: str  # and year, as one says it
    title: str
    topics: tuple[str, ...] = ()  # of its claims, in its own order
    experiments: tuple[str, ...] = ()
    remark: str = ""  # what else to know of the source

    def __str__(self) -> str:
        return f"{self.authors}: {self.title}" + (f" ({self.remark})" if self.remark else "")

    @property
    def folder(self) -> Path:
        return _ROOMS / self.key

    @property
    def readme(self) -> str:
        """What of the paper is where."""
        return (self.folder / "README.md").read_text(encoding="utf-8")

    def claims(self) -> dict[str, Claim]:
        """Its claims by identifier, in its own order."""
        found = [entry for topic in self._topics() for entry in vars(topic).values() if isinstance(entry, Claim)]
        claims = {claim.identifier: claim for claim in found if claim.source == self.key}
        twice = [claim.identifier for claim in found if claims.get(claim.identifier, claim) is not claim]
        assert not twice, f"{', '.join(twice)} entered twice"
        return claims

    def not_checked(self) -> list[NotChecked]:
        """What of it was judged not checkable, and why."""
        entries = (entry for topic in self._topics() for entry in vars(topic).get("NOT_CHECKED", ()))
        return [replace(entry, source=self.key) for entry in entries]

    @property
    def figure_names(self) -> list[str]:
        return sorted(path.stem.removeprefix("fig_") for path in self.folder.glob("figures/fig_*.py"))

    def figure(self, name: str) -> Figure:
        """The figure of that name."""
        figure: Figure = self._module(f"figures.fig_{name}").FIGURE
        return figure

    def kind(self, name: str) -> Kind[Any]:
        """The experiment of that name."""
        kind: Kind[Any] = self._module(f"experiments.{name}").KIND
        return kind

    def preset(self, name: str, size: str) -> Path:
        """The file of an experiment in one of its sizes."""
        return self.folder / "experiments" / "presets" / f"{name}-{size}.toml"

    @property
    def sweeps(self) -> dict[str, Path]:
        """The files of its published sweeps, by name."""
        return {path.stem: path for path in sorted(self.folder.glob("sweeps/*.toml"), key=lambda path: path.stem)}

    def _topics(self) -> list[ModuleType]:
        return [self._module(f"claims.{topic}") for topic in self.topics]

    def _module(self, name: str) -> ModuleType:
        return import_module(f"lazyrich.papers.{self.key}.{name}")
