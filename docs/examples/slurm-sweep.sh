#!/bin/bash
# One sweep by many jobs of SLURM that share a folder:  sbatch slurm-sweep.sh SWEEP FOLDER
# Jobs that were killed or ran out of time: the same command again computes what is missing.
#SBATCH --job-name=lazyrich-sweep
#SBATCH --array=1-16            # begins at 1; as many as you like
#SBATCH --cpus-per-task=1
#SBATCH --mem=4G                # what lazyrich sweep SWEEP --dry-run says, and 1 GB for the program
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --output=%x-%A_%a.log

set -euo pipefail
# status 3 means: this share is done, and others are still at theirs
lazyrich sweep "$1" --out "$2" --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" || [ $? -eq 3 ]
