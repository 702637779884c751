"""What a figure is. A file `figures/fig_<name>.py` of a paper's room ends with its `FIGURE`, made of

    TITLE, ABOUT          a line, and three sentences: what is shown, with which settings, what to see
    CALLS                 the calls of the public interface that it stands on
    CHECKS                the numbers that make it true, each with its bound (`Check`)
    QUICK                 settings of a small version, for a first look and for tests
    compute(**settings)   → Dataset; the defaults are the published settings, the numbers are in `attrs`; one
                          that reads a store says there whether that holds what was published (`published`, 1 or 0)
    draw(data)            → matplotlib figure, from that data alone

To add a figure, write such a file: nothing else needs to know of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._version import __version__

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture
    from matplotlib.figure import SubFigure
    from xarray import DataArray, Dataset
else:  # matplotlib and xarray are loaded when a figure is computed or drawn, not when it is named
    Axes = Picture = SubFigure = DataArray = Dataset = Any

__all__ = ["Axes", "Check", "DataArray", "Dataset", "Figure", "Picture", "SubFigure", "dataset"]


def dataset(
    variables: Mapping[str, Any] | None = None,
    coords: Mapping[str, Any] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> Dataset:
    """The data of a figure: arrays with the names of their axes, what the axes count, and the numbers to check."""
    from xarray import Dataset

    return Dataset(variables, coords, attrs)


@dataclass(frozen=True)
class Check:
    """What a number says, and the bound that it must keep, at the published size and at the quick one.

    >>> check = Check("largest error", at_most=1e-12)
    >>> str(check), check.holds(1e-15), check.holds(float("nan"))
    ('largest error (≤ 1e-12)', True, False)
    """

    words: str
    at_most: float | None = None
    at_least: float | None = None

    def holds(self, value: float) -> bool:
        """Whether the bound is kept; nan keeps none."""
        return (self.at_most is None or value <= self.at_most) and (self.at_least is None or value >= self.at_least)

    def __str__(self) -> str:
        bound = f"≤ {self.at_most:g}" if self.at_most is not None else f"≥ {self.at_least:g}"
        return f"{self.words} ({bound})"


@dataclass(frozen=True)
class Figure:
    """A figure of a paper: its words, its settings, its two functions.

    >>> figure = lr.papers.figure("kunin2024/3")
    >>> figure.calls, figure.parse("horizon", "40")
    (('lr.inits.single_neuron', 'lr.solve', 'lr.descend', 'lr.observables.kernel_distance'), 40.0)
    """

    name: str  # such as "braun2022/2"
    title: str
    about: str  # three sentences: what is shown, with which settings, what to see
    calls: tuple[str, ...]  # of the public interface, which it stands on
    checks: Mapping[str, Check]  # the numbers that make it true
    quick: Mapping[str, Any]  # settings of a small version, for a first look and for tests
    computation: Callable[..., Dataset]
    drawing: Callable[[Dataset], Picture]

    @property
    def settings(self) -> dict[str, Any]:
        """The published settings, by name."""
        return {name: p.default for name, p in inspect.signature(self.computation).parameters.items()}

    def compute(self, settings: Mapping[str, Any] | None = None, *, quick: bool = False) -> Dataset:
        """The data of the figure; `settings` go before those of the quick size, and those before the published ones."""
        try:
            import xarray  # noqa: F401
        except ImportError:
            raise ImportError("figures need xarray: pip install 'lazyrich[figures]'.") from None
        given = {self._known(name): value for name, value in (settings or {}).items()}
        chosen = (dict(self.quick) if quick else {}) | given
        try:
            data: Dataset = self.computation(**chosen)
        except (InvalidInput, ImportError):
            raise
        except (ValueError, TypeError, LookupError, ArithmeticError) as error:
            if not given:
                raise
            raise InvalidInput(f"{self.name} cannot be computed with {_in_words(given)}: {error}.") from error
        about = {"figure": self.name, "title": self.title, "settings": _in_words(self.settings | chosen)}
        published = {"published": int(not chosen)}  # what has read a store knows better, and says so
        return data.assign_attrs(published | data.attrs | about | {"lazyrich": __version__})

    def draw(self, data: Dataset) -> Picture:
        """The figure, from its data alone, no legend over a curve."""
        from lazyrich.plot import style

        with style.styled():
            return style.uncover(self.drawing(data))

    def numbers(self, data: Dataset) -> dict[str, float]:
        """What was measured, by the names of the checks."""
        return {name: float(data.attrs[name]) for name in self.checks}

    def parse(self, name: str, text: str) -> Any:
        """A setting from text, of the kind of its published value."""
        published = self.settings[self._known(name)]
        kind = type(published[0] if isinstance(published, tuple) else published)
        try:
            if isinstance(published, tuple):
                return tuple(kind(part) for part in text.split(","))
            if kind is bool:
                return {"true": True, "false": False}[text.lower()]
            return kind(text)
        except (ValueError, KeyError):
            example = ",".join(map(str, published)) if isinstance(published, tuple) else published
            raise InvalidInput(f"{name} must be like {example}, and it is {text!r}.") from None

    def _known(self, name: str) -> str:
        return _check.choice(f"a setting of {self.name}", name, tuple(self.settings))


def _in_words(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())
