"""Every figure of the catalogue at its quick size: the numbers that make it true, and a picture of its data alone."""

from __future__ import annotations

import io

import numpy as np
import pytest
import xarray
from oracles.pictures import points_under_legends
from PIL import Image

import lazyrich as lr
from lazyrich.cli import main
from lazyrich.papers import figure as entry
from lazyrich.papers import figures as names
from lazyrich.papers.base.figure import Check

_LONG = (  # more than five seconds, most of it compilation; what they stand on has tests of its own
    "braun2022/2",
    "braun2022/5",
    "domine2025/architectures",
    "notes/completion",
    "notes/landscape",
    "notes/ratio",
    "kunin2024/1b_supporting",
    "kunin2024/5a",
    "kunin2024/5b",
    "kunin2024/5c",
    "kunin2024/5d",
    "kunin2024/5_rates",
    "kunin2024/deep",
    "kunin2024/wide",
    "saxe2014/delay",
    "saxe2014/depth",
    "tu2024/noise_drift",
    "tu2024/random_errors",
)


@pytest.mark.figures
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in _LONG)) for n in names()])
def test_quick_version_is_true_and_drawn_from_its_data(name):
    known = entry(name)
    data = known.compute(quick=True)
    for key, check in known.checks.items():
        assert check.holds(known.numbers(data)[key]), f"{check}: {known.numbers(data)[key]:.3g}"
    restored = xarray.open_dataset(io.BytesIO(bytes(data.to_netcdf(engine="scipy"))), engine="scipy").load()
    figure, stream = known.draw(restored), io.BytesIO()
    assert points_under_legends(figure) == 0
    figure.savefig(stream, format="svg")
    assert stream.tell() > 5000


@pytest.mark.parametrize("name", names())
def test_entry_says_what_it_is(name):
    known = entry(name)
    assert known.title and len(known.title) < 90 and not known.title.endswith(".")
    assert 2 <= known.about.count(". ") + 1 <= 5
    assert known.checks and all(isinstance(check, Check) for check in known.checks.values())
    assert set(known.quick) <= set(known.settings)
    for call in known.calls:
        thing = lr
        for part in call.removeprefix("lr.").split("."):
            thing = getattr(thing, part)


def test_a_check_needs_a_number_that_keeps_its_bound():
    assert Check("x", at_most=1.0).holds(1.0) and not Check("x", at_most=1.0).holds(1.1)
    assert Check("x", at_least=1.0).holds(1.0) and not Check("x", at_least=1.0).holds(np.nan)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("kunin2024/3", {"horizon": float("nan")}),
        ("kunin2024/3", {"rate": "x"}),
        ("notes/ratio", {"strengths": (5.0,)}),
    ],
)
def test_settings_that_do_not_fit_are_named(name, settings):
    with pytest.raises(lr.InvalidInput, match=f"^{name} cannot be computed with {next(iter(settings))}="):
        entry(name).compute(settings, quick=True)


def test_data_know_their_settings():
    data = entry("kunin2024/3").compute({"deltas": (0.0,), "horizon": 1.0}, quick=True)
    assert data.attrs["settings"] == "deltas=(0.0,), horizon=1.0, rate=0.01" and data.attrs["published"] == 0


class TestCommand:
    def test_lists_all(self, capsys):
        assert main(["figure", "--list"]) == 0
        printed = capsys.readouterr().out
        assert all(name in printed for name in names())

    def test_writes_picture_and_data(self, tmp_path, capsys):
        assert main(["figure", "kunin2024/3", "--quick", "--format", "svg", "--out", str(tmp_path / "new")]) == 0
        assert {file.name for file in (tmp_path / "new").iterdir()} == {"kunin2024-3.svg", "kunin2024-3.nc"}
        assert "holds" in capsys.readouterr().out

    def test_a_number_out_of_bounds_is_told_to_programs(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr(Check, "holds", lambda self, value: False)
        assert main(["figure", "kunin2024/3", "--quick", "--out", str(tmp_path)]) == 1
        assert "FAILS" in capsys.readouterr().out

    def test_lists_the_settings_of_a_figure(self, capsys):
        assert main(["figure", "kunin2024/3", "--list"]) == 0
        assert "rate=0.001" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["kunin2024/33"], "did you mean kunin2024/3"),
            (["kunin"], "there is no figure 'kunin' (did you mean kunin2024"),
            (["kunin2024/3", "--set", "rat=1"], "a setting of kunin2024/3 must be one of"),
            (["kunin2024/3", "--set", "rate=x"], "rate must be like 0.001, and it is 'x'"),
            (["kunin2024/3", "--set", "rate"], "--set must be NAME=VALUE"),
            (["kunin2024/3", "--out", "/dev/null/x"], "--out must be a folder that can be written to"),
            ([], "NAME is missing"),
        ],
    )
    def test_refuses_in_one_sentence_before_computing(self, arguments, sentence, capsys, monkeypatch):
        monkeypatch.setattr("lazyrich.papers.base.figure.Figure.compute", None)
        assert main(["figure", *arguments]) == 2
        said = capsys.readouterr().err
        assert sentence in said and said.count("\n") == 1


def test_gallery_is_drawn_from_the_data_alone(tmp_path, monkeypatch, capsys):
    from lazyrich.papers import gallery

    monkeypatch.setattr(gallery, "figures", lambda: ["kunin2024/3"])
    with pytest.raises(lr.InvalidInput, match=r"kunin2024-3\.nc is missing: lazyrich figure kunin2024/3 --out"):
        gallery.write(tmp_path, tmp_path)
    assert main(["figure", "kunin2024/3", "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    (tmp_path / "kunin2024-3.png").unlink()
    page = gallery.write(tmp_path, tmp_path).read_text(encoding="utf-8")
    known = entry("kunin2024/3")
    assert known.about in page and "lazyrich figure kunin2024/3" in page and "(kunin2024-3.png)" in page
    with Image.open(tmp_path / "kunin2024-3.png") as picture:
        assert picture.mode == "P" and picture.width == 160 * known.draw(_data_in(tmp_path, known)).get_figwidth()


def _data_in(folder, known):
    return xarray.open_dataset(folder / f"{known.name.replace('/', '-')}.nc", engine="scipy").load()


@pytest.mark.figures
def test_gallery_draws_one_picture_alone(tmp_path, capsys):
    from lazyrich.papers import gallery

    assert main(["figure", "kunin2024/3", "--quick", "--out", str(tmp_path)]) == 0
    with pytest.raises(lr.InvalidInput, match="must hold the published settings"):
        gallery.draw("kunin2024/3", tmp_path, tmp_path)
    assert main(["figure", "kunin2024/3", "--out", str(tmp_path)]) == 0
    (tmp_path / "pictures").mkdir()
    gallery.draw("kunin2024/3", tmp_path, tmp_path / "pictures")
    assert [file.name for file in (tmp_path / "pictures").iterdir()] == ["kunin2024-3.png"]
