from .base.claim import Claim, NotChecked, Slip, Verdict, slips
from .base.figure import Figure
from .base.kind import Kind, Report
from .base.paper import Paper
from .data import download, images
from .experiment import Experiment, experiment
from .shelf import experiments, figure, figures, ledger, not_checked, paper, papers, sweep, sweeps
from .trial import Finding, try_claims

__all__ = [
    "Claim",
    "Experiment",
    "Figure",
    "Finding",
    "Kind",
    "NotChecked",
    "Paper",
    "Report",
    "Slip",
    "Verdict",
    "download",
    "experiment",
    "experiments",
    "figure",
    "figures",
    "images",
    "ledger",
    "not_checked",
    "paper",
    "papers",
    "slips",
    "sweep",
    "sweeps",
    "try_claims",
]
