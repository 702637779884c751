"""What is true of a problem, as numbers with the tolerance they are judged by; and refusals as data.

How far the inputs are from white, how far the layers are from balanced, whether the initialisation shares the task's
modes, which ranks and signs stand in the way. The exact methods read nothing else when they accept or refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from lazyrich.losses import SQUARED, Loss
from lazyrich.networks import Activation
from lazyrich.networks.network import architecture

_EPS = float(np.finfo(np.float64).eps)


class Condition(Enum):
    """What a theorem may ask of a problem."""

    DEPTH = "number of layers"
    LINEAR = "linear network"
    WHITE = "white inputs"
    BALANCED = "balanced layers"
    ALIGNED = "aligned initialisation"
    BIASES = "network without biases"
    DECAY = "weight decay"
    SQUARED_LOSS = "squared loss"


@dataclass(frozen=True)
class Refusal:
    """A condition of a method that a problem does not meet; printed, it is a clause that says by how much, and a hint.

    >>> network = lr.Network([[[0.1, 0.0], [0.0, 0.2]], [[0.3, 0.0]]])
    >>> refusal, = lr.Problem(lr.Task.from_correlations([[1.0, 2.0]]), network).facts.methods["riccati"]
    >>> refusal.condition, round(refusal.measured, 2), refusal.allowed < 2e-14
    (<Condition.BALANCED: 'balanced layers'>, 0.61, True)
    """

    condition: Condition
    message: str
    measured: float  # what came, and how much of it the method takes
    allowed: float
    hint: str = ""  # what would meet it

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


@dataclass(frozen=True)
class Facts:
    """What is true of a problem, with the numbers behind it. `print(problem.facts)` reads well.

    >>> network = lr.Network([[[0.1, 0.0], [0.0, 0.2]], [[0.3, 0.0]]])
    >>> facts = lr.Problem(lr.Task.from_correlations([[1.0, 2.0]]), network).facts
    >>> facts.depth, facts.whitened, facts.balanced, facts.method
    (2, True, False, None)
    >>> print(*facts.methods["riccati"])
    it needs layers with W2ᵀW2 − W1W1ᵀ = λI, and these are off by 0.61 of their size (tolerance 1e-14)
    """

    sizes: tuple[int, ...]
    activation: Activation
    rates: tuple[float, ...]
    weight_decay: float
    eps: float  # precision the least precise input came in
    tolerance: float  # what counts as zero, relative
    whitening_error: float  # ‖Σxx − c·I‖ / c
    input_scale: float  # c
    lam: tuple[float, ...]  # λ of each neighbouring pair of layers
    balance_error: float  # largest ‖D − λI‖ / (‖W_ℓ‖² + ‖W_ℓ₊₁‖²), Frobenius
    family: tuple[float, float]  # c and δ of two layers (theory: section 11), and how far D is from two eigenvalues
    family_error: float
    alignment_error: (
        float  # largest coupling of a mode with others, or in three layers or more with other weights, relative
    )
    mode_imbalance: float  # largest difference between the layers of one mode, relative; 0 where they are not aligned
    rank_target: int
    rank_initial: int
    determinant_obstruction: bool
    methods: Mapping[str, tuple[Refusal, ...]]  # exact ones, with all conditions of each that fail (none: it applies)
    input_rank: int | None = None  # directions that the inputs have, where these are fewer; a constant is not counted
    biased: bool = False  # sizes then count the constant that biases are weights from
    loss: Loss = SQUARED

    @property
    def kind(self) -> str:
        """The activation in words."""
        return str(self.activation)

    @property
    def depth(self) -> int:
        return len(self.sizes) - 1

    @property
    def whitened(self) -> bool:
        """Σxx = c·I."""
        return self.whitening_error <= self.tolerance

    @property
    def balanced(self) -> bool:
        """Each pair of neighbouring layers has D = λI."""
        return self.balance_error <= self.tolerance

    @property
    def in_family(self) -> bool:
        """D = W2ᵀW2 − W1W1ᵀ of two layers has the eigenvalue c − δ/2 on d_out directions and −(c + δ/2) on d_in."""
        return self.family_error <= self.tolerance and not self.zero_balanced

    @property
    def orbit(self) -> tuple[float, float]:
        """δ and c² − δ²/4 of GJG = δG + (c² − δ²/4)J, G = QQᵀ, J = diag(I, −I), which the flow keeps; −λ and 0 where
        the layers are balanced."""
        c, delta = self.family
        return (-self.lam[0], 0.0) if self.balanced else (delta, (c - delta / 2) * (c + delta / 2))

    @property
    def orbit_error(self) -> float:
        """How far the initial weights are from that, relative."""
        return self.balance_error if self.balanced else self.family_error

    @property
    def zero_balanced(self) -> bool:
        return self.balanced and not any(self.lam)

    @property
    def aligned(self) -> bool:
        """Initialisation, layers and inputs share the task's singular vectors: the modes do not interact."""
        return self.alignment_error <= self.tolerance

    @property
    def bottleneck(self) -> bool:
        """A hidden layer is narrower than the target's rank."""
        return min(self.sizes[1:-1], default=self.rank_target) < self.rank_target

    @property
    def precision(self) -> str:
        return {2.0**-52: "float64", 2.0**-23: "float32"}.get(self.eps, "half")

    @property
    def method(self) -> str | None:
        """The cheapest exact method that applies."""
        return next((name for name, refusals in self.methods.items() if not refusals), None)

    def __str__(self) -> str:
        yes = {True: "yes", False: "no"}
        lam = ", ".join(f"{value:.6g}" for value in self.lam)
        rows = {
            "network": architecture(self.sizes, self.activation, self.biased),
            "inputs whitened": f"{yes[self.whitened]} (Σxx = {self.input_scale:.6g}·I"
            f" within {self.whitening_error:.1e}"
            + (")" if self.input_rank is None else f", and of rank {self.input_rank})"),
            "balanced": f"yes (λ = {lam} within {self.balance_error:.1e})"
            if self.balanced
            else f"no (off any λI by {self.balance_error:.1e} of the layers' size)",
            "aligned": f"{yes[self.aligned]} (coupling between modes {self.alignment_error:.1e})",
            "ranks": f"target {self.rank_target}, initialisation {self.rank_initial}"
            + (f", bottleneck {min(self.sizes[1:-1]) - self.biased}" if self.bottleneck else ""),
            "determinant obstruction": "yes: signs of det differ, so a mode stays unlearned"
            if self.determinant_obstruction
            else "no",
            "precision": f"{self.precision} (judged to {self.tolerance:.0e})"
            + ("" if self.eps == _EPS else ": exact for an initialisation this close to the given one"),
        }
        if not np.isfinite(self.alignment_error):
            rows["aligned"] = "no (biases are weights from a unit that stays 1, and no mode has it)"
        if not self.loss.squared:
            rows["loss"] = f"{self.loss} (balance is conserved as with the squared one, but modes interact)"
            del rows["aligned"], rows["determinant obstruction"]
        if self.in_family and not self.balanced:
            c, delta = self.family
            rows["balanced"] += f", but W2ᵀW2 − W1W1ᵀ has two eigenvalues (c = {c:.6g}, δ = {delta:.6g})"
        if self.depth == 1:
            del rows["balanced"]  # with what?
        if self.rates != (1.0,) * self.depth:
            rows["layer rates"] = ", ".join(f"{rate:g}" for rate in self.rates)
        if self.weight_decay:
            rows["weight decay"] = f"{self.weight_decay:g}"
        for name, refusals in self.methods.items():
            rows[f"method {name}"] = f"no: {'; '.join(map(str, refusals))}" if refusals else "applies"
        return "\n".join(f"{key:<24}{value}" for key, value in rows.items())
