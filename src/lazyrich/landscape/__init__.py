"""Where the flow ends, and why: fate, regime, critical points, the saddles on the way, curvature."""

from lazyrich.landscape.critical_points import CriticalPoint, Escape, critical_points, escape, network_at
from lazyrich.landscape.drift import balance_drift, expected_drift
from lazyrich.landscape.fate import Fate, fate
from lazyrich.landscape.hessian import extreme_eigenvalues, hessian, hessian_vector_product, sharpness
from lazyrich.landscape.horizon import horizon
from lazyrich.landscape.plateaus import PlateauComparison, Plateaus, compare_plateaus, plateau_times
from lazyrich.landscape.regime import Phase, Regime, regime
from lazyrich.landscape.regime_prediction import RegimePrediction, limiting_regimes, predict_regime
from lazyrich.landscape.saddle_path import SaddlePath, Visit, saddle_path
from lazyrich.landscape.steps import Steps

__all__ = [
    "CriticalPoint",
    "Escape",
    "Fate",
    "Phase",
    "PlateauComparison",
    "Plateaus",
    "Regime",
    "RegimePrediction",
    "SaddlePath",
    "Steps",
    "Visit",
    "balance_drift",
    "compare_plateaus",
    "critical_points",
    "escape",
    "expected_drift",
    "extreme_eigenvalues",
    "fate",
    "hessian",
    "hessian_vector_product",
    "horizon",
    "limiting_regimes",
    "network_at",
    "plateau_times",
    "predict_regime",
    "regime",
    "saddle_path",
    "sharpness",
]
