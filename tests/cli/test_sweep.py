"""`lazyrich sweep`: what it prints, what it writes, how it ends; and the document on sweeps, whose every line runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest

import lazyrich as lr
from lazyrich.cli import _parser, main
from lazyrich.papers import sweep as published
from lazyrich.papers import sweeps
from lazyrich.sweeps import Sweep, compute, estimate
from lazyrich.sweeps.measure import names
from lazyrich.sweeps.problems import PROBLEMS
from lazyrich.sweeps.run import Summary, run
from lazyrich.sweeps.store import open_store

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "sweeps.md"
SMALL = """
about = "four cells, of which one has no start"
problem = "random_regression"
at = [0, 2, 5]

[axes]
seed = { range = 2 }
h = [2, 3]

[settings]
d_in = 3
d_out = 3
samples = 6
lam = 0.5

[block]
seed = 1
"""
BAD = SMALL.replace("[2, 3]", "[2, 4]")  # four hidden units are too many for λ = 0.5
NO_START = "lam = 0.5 needs a hidden layer no wider than the outputs (3), and it has 4 units"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to work in, with two small sweeps."""
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(SMALL, encoding="utf-8")
    Path("bad.toml").write_text(BAD, encoding="utf-8")
    return tmp_path


@pytest.fixture
def in_this_process(monkeypatch):
    """Blocks are computed here, even if JAX has started on all cores, and not in a process with one thread."""
    monkeypatch.setenv("PJRT_NPROC", "1")


def answer(capsys, arguments):
    """Exit status, standard output and standard error of one command."""
    status = main(["sweep", *shlex.split(arguments)])
    out, err = capsys.readouterr()
    return status, out, err


def document(capsys, arguments, *, status=0):
    """The JSON that a command prints, and nothing else there."""
    ended, out, _ = answer(capsys, f"{arguments} --json")
    assert ended == status
    return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def files_under(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


# what can be asked without computing anything ---------------------------------------------------------------


def test_help_ends_with_an_example(capsys):
    status, out, err = answer(capsys, "--help")
    assert (status, err) == (0, "")
    assert out.rstrip().splitlines()[-2:] == ["example:", "  lazyrich sweep kunin2024/1b --dry-run"]


def test_list_names_sweeps_problems_and_arguments(capsys, folder):
    status, out, err = answer(capsys, "--list")
    assert (status, err) == (0, "")
    assert all(re.search(rf"^{name} +[0-9]+  {published(name).about}", out, re.MULTILINE) for name in sweeps())
    assert all(f"\n{name}: " in out for name in PROBLEMS)
    assert "loss, test_loss, " in out and all(name in out for name in names())
    assert "seed, tau = 1.0, delta = 0.0, d = 100, h = 50, teacher = 3, n = 1000" in out
    told = document(capsys, "--list")
    assert [row["sweep"] for row in told["sweeps"]] == sweeps() and told["observables"] == list(names())
    assert "half_times" in told["fields"]["fate"] and "Observables of the method predict" in out
    assert {row["problem"]: row["arguments"] for row in told["problems"]}["hierarchy"] == {
        "seed": None, "h": 14, "scale": 0.01, "lam": 0.0, "activation": "linear"
    }  # fmt: skip


@pytest.mark.parametrize("name", sweeps())
def test_show_prints_a_file_that_gives_the_same_sweep(capsys, folder, name):
    status, out, err = answer(capsys, f"{name} --show")
    assert (status, err) == (0, "")
    Path("copy.toml").write_text(out, encoding="utf-8")
    assert Sweep.from_toml("copy.toml") == published(name)
    assert Sweep.from_dict(document(capsys, f"{name} --show")) == published(name)


def test_a_dry_run_says_what_would_be_and_writes_nothing(capsys, folder):
    before = files_under(folder)
    status, out, _ = answer(capsys, "small.toml --dry-run --out results")
    assert status == 0 and files_under(folder) == before
    rows = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert (rows["grid"], rows["cells"], rows["blocks"]) == ("seed 2 × h 2", "4", "2 of 1 × 2 cells")
    assert rows["sweep"] == "small: four cells, of which one has no start"
    assert re.fullmatch(r"at most [0-9.]+ (bytes|KiB|MiB)", rows["store"])
    assert re.fullmatch(r"[0-9.]+ (bytes|[KMG]iB) of arrays in each process", rows["memory"])
    assert re.fullmatch(
        r"about [0-9.e-]+ \w+ on 1 × \w.* \([0-9.e-]+ s a cell\), and some seconds to start and compile", rows["time"]
    )


def test_a_dry_run_in_numbers(capsys, folder, monkeypatch):
    guess = estimate.estimate(Sweep.from_toml("small.toml"))
    monkeypatch.setattr(estimate, "estimate", lambda sweep: guess._replace(cells=sweep.cells, blocks=sweep.blocks))
    told = document(capsys, "small.toml --dry-run")
    assert (told["cells"], told["blocks"], told["block_shape"]) == (4, 2, [1, 2])
    assert told["seconds"] == pytest.approx(4 * guess.seconds_per_cell)
    split = document(capsys, "small.toml --dry-run --block h=1,seed=2 --workers 2 --shard 2/4")
    assert (split["block_shape"], split["seconds"]) == ([2, 1], pytest.approx(guess.seconds_per_cell / 2))


# what is computed -------------------------------------------------------------------------------------------


def test_the_same_command_goes_on_and_computes_nothing_twice(capsys, folder, in_this_process, monkeypatch):
    first = document(capsys, "small.toml --out results --shard 1/2", status=3)
    assert (first["cells"], first["complete"], first["computed"]) == (4, 2, 2)
    kept = open_store("results").load()
    assert kept.status.values.tolist() == [[1, 1], [0, 0]]
    rest = document(capsys, "small.toml --out results")
    assert (rest["complete"], rest["computed"], rest["out"]) == (4, 2, "results")
    monkeypatch.setattr(Sweep, "compute", lambda *_: pytest.fail("computed again"))
    status, out, _ = answer(capsys, "small.toml --out results")
    assert status == 0 and out.endswith("Results: results\n")
    data = open_store("results")
    assert np.array_equal(data.loss[0], kept.loss[0]) and np.isfinite(data.loss).all()


def test_results_go_to_a_folder_with_the_name_of_the_sweep(capsys, folder):
    (folder / "elsewhere").mkdir()
    Path("small.toml").rename("elsewhere/mine.toml")
    told = document(capsys, "elsewhere/mine.toml")
    assert told["out"] == str(Path("lazyrich-out/mine")) and (folder / "lazyrich-out/mine/data.zarr").is_dir()
    assert document(capsys, "elsewhere/mine.toml --status")["cells"]["complete"] == 4


def test_failed_cells_are_told_with_their_causes_and_are_no_failure_of_the_sweep(capsys, folder):
    status, out, _ = answer(capsys, "bad.toml --out results")
    assert status == 0 and NO_START in out
    status, out, err = answer(capsys, "--status --out results")
    assert (status, err) == (0, "")
    assert out.startswith("results: 4 cells: 2 complete, 2 failed.\n") and NO_START in out and "seed=0, h=4" in out
    told = document(capsys, "--status --out results")
    assert told["cells"] == {"pending": 0, "complete": 2, "stopped": 0, "failed": 2}
    assert [entry["cell"] for entry in told["failures"]] == [{"seed": 0, "h": 4}, {"seed": 1, "h": 4}]
    assert all(entry["cause"].startswith(NO_START) and entry["status"] == "failed" for entry in told["failures"])


def test_blocks_that_cannot_be_computed_end_in_status_1_and_are_tried_again(
    capsys, folder, in_this_process, monkeypatch
):
    def broken(sweep, block, tick):
        if block.number == 1:
            raise RuntimeError("the engine has stalled")
        return compute.compute(sweep, block, tick)

    with monkeypatch.context() as broken_down:
        broken_down.setattr(Sweep, "compute", broken)
        status, out, _ = answer(capsys, "small.toml --out results")
        assert status == 1 and "the engine has stalled" in out
    assert document(capsys, "--status --out results")["cells"]["pending"] == 2
    assert document(capsys, "small.toml --out results")["complete"] == 4


# one sentence -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("", "NAME is missing: a published sweep such as kunin2024/1b, or a file; --list names them."),
        ("kunin2024", "there is no sweep 'kunin2024' (did you mean kunin2024/1b"),
        ("none.toml", "none.toml cannot be read: No such file or directory."),
        (".", "there is no sweep '.': lazyrich sweep --list names all 2."),
        ("torn.toml", "torn.toml is not TOML: "),
        ("small.toml --workers 0", "--workers must be at least 1, and it is 0."),
        ("small.toml --dry-run --workers 0", "--workers must be at least 1, and it is 0."),
        ("small.toml --shard 0/4", "--shard must be I/N with I from 1 to N, such as 2/16, and it is '0/4'."),
        ("small.toml --shard 5/4", "--shard must be I/N"),
        ("small.toml --shard 1", "--shard must be I/N"),
        ("small.toml --shard /", "--shard must be I/N"),
        ("small.toml --block 4", "--block must be AXIS=N,…, such as seed=1,tau=17, and it is '4'."),
        ("small.toml --block seed=1;h=2", "--block must be AXIS=N"),
        ("small.toml --block seed=0", "block.seed must be at least 1, and it is 0."),
        ("small.toml --block sed=1", "must be one of 'seed', 'h', and it is 'sed' (did you mean 'seed'?)."),
        ("small.toml --out small.toml", "small.toml is a file, and a folder would be made there."),
        ("small.toml --out occupied", "occupied must be a new or empty folder, or hold a sweep, and it holds letter"),
        ("--status", "--status needs the folder of a sweep, --out DIR, or its NAME."),
        ("--status --out none", "none holds no sweep"),
        ("small.toml --scheduler nonsense", "scheduler"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(capsys, folder, arguments, says):
    Path("torn.toml").write_text(SMALL[: SMALL.index("range")], encoding="utf-8")
    Path("occupied").mkdir()
    Path("occupied/letter.txt").write_text("Dear")
    before = files_under(folder)
    status, out, err = answer(capsys, arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert says in err and err.startswith("lazyrich: ") and err.endswith(".\n")
    assert files_under(folder) == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("small.toml --workers two", "invalid int value: 'two'"),
        ("small.toml --workers 2 --scheduler tcp://a", "not allowed with argument --workers"),
        ("small.toml --shard -1/-2", "argument --shard: expected one argument"),
        ("small.toml --show --list", "not allowed with argument --show"),
        ("small.toml other.toml", "unrecognized arguments: other.toml"),
    ],
)
def test_a_mistyped_command_is_one_sentence(capsys, folder, arguments, says):
    status, out, err = answer(capsys, arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert says in err and err.endswith("--help says more.\n")


def test_a_changed_configuration_is_refused_with_the_difference(capsys, folder):
    document(capsys, "small.toml --out results")
    kept = open_store("results").load()
    Path("small.toml").write_text(SMALL.replace("lam = 0.5", "lam = 0.25").replace("2, 5]", "2, 6]"), encoding="utf-8")
    status, out, err = answer(capsys, "small.toml --out results")
    assert (status, out) == (2, "")
    assert "results holds another sweep" in err and "0, 2, 5 → 0, 2, 6" in err and "0.5 → 0.25" in err
    assert open_store("results").identical(kept)


@pytest.mark.parametrize("missing", ["zarr", "jax"])
def test_a_missing_extra_is_one_sentence(capsys, folder, in_this_process, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    status, out, err = answer(capsys, "small.toml --out results")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"needs {missing}: pip install 'lazyrich[" in err


# the document -----------------------------------------------------------------------------------------------


def blocks_of(kind):
    """The blocks of the document in one language."""
    return re.findall(rf"```{kind}\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.fixture
def in_the_document(folder, monkeypatch):
    """The folder that the document speaks of, with results of the published grid taken as computed."""
    (folder / "docs").symlink_to(ROOT / "docs")
    module = sys.modules[run.__module__]

    def pretend(sweep, out, **options):
        nothing = Summary(sweep.cells, sweep.cells, 0, 0, 0, 0.0, [], {})
        return nothing if sweep.name.startswith("kunin2024") else run(sweep, out, **options)

    monkeypatch.setattr(module, "run", pretend)
    return folder


@pytest.mark.documentation
def test_the_python_of_the_document_runs_block_after_block(folder):
    matplotlib.use("agg")
    blocks, session = blocks_of("python"), {"__name__": "document"}
    for block in blocks:
        exec(compile(block, str(DOCUMENT), "exec"), session)
    assert len(blocks) == 7
    assert session["data"].kernel_distance.shape == (3, 3, 3, 3) and (session["data"].status == 1).all()
    assert (folder / "kernel-distance.png").stat().st_size > 1000
    assert all((open_store(name).status == 1).all() for name in ("tilted", "largest", "fates"))


@pytest.mark.documentation
def test_the_commands_of_the_document_run(capsys, in_the_document):
    """Those that need a cluster are only read."""
    ran = []
    for line in "".join(blocks_of("console")).splitlines():
        program, *arguments = shlex.split(line.removeprefix("$ "), comments=True)
        if program == "lazyrich" and any(word.startswith("/shared") for word in arguments):
            assert _parser().parse_args(arguments)
        elif program == "lazyrich":
            assert main(arguments) == 0, line
            ran.append(line)
    assert len(ran) == 9
    one, two = open_store("my-results").load(), open_store("my-results-2").load()
    assert (one.status == 1).all() and one.identical(two.assign_attrs(one.attrs))


def in_path(folder):
    """An environment in which `lazyrich` is this one."""
    lazyrich = folder / "lazyrich"
    lazyrich.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lazyrich "$@"\n')
    lazyrich.chmod(0o755)
    return os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(Path(lr.__file__).parents[1])}


@pytest.mark.processes
def test_the_jobs_of_the_slurm_script_share_the_blocks(folder):
    script = ROOT / "docs/examples/slurm-sweep.sh"
    assert "#SBATCH --array=1-16 " in script.read_text()
    assert script.read_text().splitlines()[-1] in DOCUMENT.read_text(encoding="utf-8")
    environment = in_path(folder) | {"SLURM_ARRAY_TASK_COUNT": "2"}
    for job, done in (("1", [1, 0]), ("2", [1, 1])):
        command = ["bash", str(script), "small.toml", "results"]
        ended = subprocess.run(command, env=environment | {"SLURM_ARRAY_TASK_ID": job}, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        assert open_store("results").status[:, 0].values.tolist() == done


SBATCH = """#!/bin/sh
cat > script
jobs=$(sed -n 's/#SBATCH --array=1-//p' script)
for job in $(seq $jobs); do
    SLURM_ARRAY_TASK_ID=$job SLURM_ARRAY_TASK_COUNT=$jobs bash script > "job-$job" 2>&1 &
done
wait
echo "Submitted batch job 7"
"""


@pytest.mark.processes
def test_slurm_in_one_command(capsys, folder, monkeypatch):
    """An sbatch of ours runs the array at once, on this machine."""
    (folder / "sbatch").write_text(SBATCH)
    (folder / "sbatch").chmod(0o755)
    for name, value in in_path(folder).items():
        monkeypatch.setenv(name, value)
    status, out, _ = answer(capsys, "small.toml --out results --slurm 2 --sbatch='--time=1:00:00 --partition=short'")
    assert (status, out) == (0, f"Submitted batch job 7\nResults: {folder / 'results'}\n")
    assert (open_store("results").status == 1).all()
    lines = Path("script").read_text().splitlines()
    assert {"#SBATCH --time=1:00:00", "#SBATCH --partition=short", "#SBATCH --array=1-2"} <= set(lines)
    assert all("2 computed now" in Path(f"job-{job}").read_text() for job in (1, 2))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("small.toml --slurm 2", "--slurm needs sbatch, the command of SLURM, and it is not on the path here."),
        ("small.toml --slurm 0", "--slurm must be at least 1, and it is 0."),
        ("small.toml --slurm 2 --shard 1/2", "--slurm makes shards of its own, and cannot be with --shard."),
        ("small.toml --limit 0", "--limit must be above 0, and it is 0"),
    ],
)
def test_slurm_in_one_sentence(capsys, folder, arguments, says):
    status, out, err = answer(capsys, arguments)
    assert (status, out, err.count("\n")) == (2, "", 1) and says in err
