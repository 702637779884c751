"""Where the flow ends, and why: fate, regime, critical points, plateaus, curvature."""

from lazyrich.landscape.fate import Fate, fate
from lazyrich.landscape.regime import Phase, Regime, regime
from lazyrich.landscape.regime_prediction import RegimePrediction, limiting_regimes, predict_regime

__all__ = ["Fate", "Phase", "Regime", "RegimePrediction", "fate", "limiting_regimes", "predict_regime", "regime"]
