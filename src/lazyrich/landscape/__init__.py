"""Where the flow ends, and why."""

from lazyrich.landscape.fate import Fate, Regime, fate

__all__ = ["Fate", "Regime", "fate"]
