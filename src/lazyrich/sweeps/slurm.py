"""A sweep as one job array of SLURM, submitted: each job takes a share of the blocks, and all write into one folder.

`sbatch` gets a script of a few lines on its standard input. A job whose share is done ends well, whatever the others
do; one that was killed is made good by submitting the same again, which computes what is missing.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence

from lazyrich import _check
from lazyrich._check import InvalidInput

_SCRIPT = """#!/bin/bash
#SBATCH --job-name=lazyrich
#SBATCH --array=1-{jobs}
#SBATCH --cpus-per-task=1
#SBATCH --requeue
{options}
{command} --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" || [ $? -eq 3 ]
"""


def script(arguments: Sequence[str], jobs: int, options: str = "") -> str:
    """The job script of a command such as ["sweep", "kunin2024/1b", "--out", "/shared/kunin"].

    >>> print(script(["sweep", "kunin2024/1b", "--out", "/shared/kunin"], 16, "--time=4:00:00").splitlines()[5])
    #SBATCH --time=4:00:00
    """
    jobs = _check.count("jobs", jobs)
    command = shlex.join([sys.executable, "-m", "lazyrich", *arguments])
    lines = "\n".join(f"#SBATCH {option}" for option in shlex.split(options))
    return _SCRIPT.format(jobs=jobs, options=lines, command=command)


def submit(arguments: Sequence[str], jobs: int, options: str = "") -> str:
    """Hands the script to `sbatch`, and says what that answers."""
    text = script(arguments, jobs, options)
    if shutil.which("sbatch") is None:
        raise InvalidInput("--slurm needs sbatch, the command of SLURM, and it is not on the path here.")
    answer = subprocess.run(["sbatch"], input=text, capture_output=True, text=True)
    if answer.returncode:
        raise InvalidInput(f"sbatch refused the jobs: {' '.join(answer.stderr.split()) or 'it does not say why'}.")
    return answer.stdout.strip()
