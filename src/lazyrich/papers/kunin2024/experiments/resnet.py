"""The small residual network of the DAWN benchmark for CIFAR-10 (cifar10-fast), as plain functions of its weights.

    prep      convolution k × k, batch norm, ReLU: its kernels are the filters that the experiment looks at
    layer1    convolution 3 × 3, batch norm, ReLU, pooling; then two more without pooling, whose result is added
    layer2    convolution, batch norm, ReLU, pooling
    layer3    like layer1
    linear    of each channel's largest value; no bias; the logits are an eighth of it

Images are (n, rows, columns, colours). Convolutions are XLA's own: on one core of a CPU they took a quarter to a
half of the time of cut patches and products, for 15 × 15 kernels as well as for 3 × 3, forwards and backwards. Their
gradients are written out for the CPU. There XLA finds its fast routine for a convolution in the usual order of axes
(images first, colours last), brings others to that order at the top of a program alone, and follows those inside of a
loop number by number, which took 20 to 40 times as long.
"""

from __future__ import annotations

import itertools
import math
from functools import cache

from lazyrich.papers.base.types import JaxArray, Tree

#: The normalised convolutions in order: name, channels in and channels out, as places in (colours, *channels).
LAYERS = (
    ("prep", 0, 1),
    ("layer1", 1, 2),
    ("layer1 residual 1", 2, 2),
    ("layer1 residual 2", 2, 2),
    ("layer2", 2, 3),
    ("layer3", 3, 4),
    ("layer3 residual 1", 4, 4),
    ("layer3 residual 2", 4, 4),
)
_EPS = 1e-5  # beside the variance in batch norm
_LOGITS = 0.125


def initial_weights(
    key: JaxArray, channels: tuple[int, ...], kernel: int, colours: int, classes: int
) -> dict[str, JaxArray]:
    """Weights as PyTorch draws them: uniform within ±1/√(inputs of a unit); batch norm starts as the identity."""
    import jax
    import jax.numpy as jnp

    sizes = (colours, *channels)
    shapes: dict[str, tuple[int, ...]] = {
        name: (kernel if name == "prep" else 3,) * 2 + (sizes[i], sizes[j]) for name, i, j in LAYERS
    }
    shapes["linear"] = (sizes[-1], classes)
    ends = list(itertools.accumulate(math.prod(shape) for shape in shapes.values()))
    drawn = jnp.split(jax.random.uniform(key, ends[-1:], minval=-1, maxval=1), ends[:-1])  # ten draws compile in 10 s
    weights: dict[str, JaxArray] = {}
    for (name, shape), numbers in zip(shapes.items(), drawn, strict=True):
        within = numbers.reshape(shape) / math.sqrt(math.prod(shape[:-1]))
        normalised = {"filters": within, "scale": jnp.ones(shape[-1]), "shift": jnp.zeros(shape[-1])}
        weights[name] = within if name == "linear" else normalised
    return weights


def forward(weights: Tree, images: JaxArray, stride: int = 1, running: Tree = None) -> tuple[JaxArray, JaxArray]:
    """Logits, and mean and variance of each channel that batch norm saw, by layer.

    Batch norm uses those of this batch (as in training), or `running` ones (as in a test). `stride` is that of the
    first convolution.
    """
    import jax
    import jax.numpy as jnp
    from jax import lax

    moments: dict[str, JaxArray] = {}

    def layer(name: str, x: JaxArray, stride: int = 1) -> JaxArray:
        mine = weights[name]
        x = convolution(stride)(x, mine["filters"])
        moments[name] = (x.mean((0, 1, 2)), x.var((0, 1, 2))) if running is None else running[name]
        mean, variance = moments[name]
        return jax.nn.relu((x - mean) * (mine["scale"] * lax.rsqrt(variance + _EPS)) + mine["shift"])

    def pooled(x: JaxArray) -> JaxArray:
        n, rows, columns, channels = x.shape
        return x.reshape(n, rows // 2, 2, columns // 2, 2, channels).max((2, 4))

    def with_residual(name: str, x: JaxArray) -> JaxArray:
        return x + layer(f"{name} residual 2", layer(f"{name} residual 1", x))

    x = layer("prep", images, stride)
    x = with_residual("layer1", pooled(layer("layer1", x)))
    x = pooled(layer("layer2", x))
    x = with_residual("layer3", pooled(layer("layer3", x)))
    return _LOGITS * jnp.matmul(x.max((1, 2)), weights["linear"]), moments


@cache
def convolution(stride: int) -> JaxArray:
    """A function of images (n, rows, columns, in) and filters (k, k, in, out).

    k is odd, and images are continued by k // 2 zeros on each side. `stride` divides rows and columns.
    """
    import jax
    from jax import lax

    def convolve(x: JaxArray, filters: JaxArray, before: int, after: int, **options: JaxArray) -> JaxArray:
        options = {"window_strides": (1, 1), "dimension_numbers": ("NHWC", "HWIO", "NHWC")} | options
        return lax.conv_general_dilated(x, filters, padding=((before, after),) * 2, **options)

    def forwards(x: JaxArray, filters: JaxArray) -> JaxArray:
        edge = filters.shape[0] // 2
        return convolve(x, filters, edge, edge, window_strides=(stride, stride))

    def backwards(kept: Tree, gradients: JaxArray) -> JaxArray:
        x, filters = kept
        edge, apart = filters.shape[0] // 2, (stride, stride)
        turned = filters[::-1, ::-1].swapaxes(2, 3)
        of_x = convolve(gradients, turned, edge, edge + stride - 1, lhs_dilation=apart)
        across, weighed = x.transpose(3, 1, 2, 0), gradients.transpose(1, 2, 0, 3)  # sums go over images and places
        of_filters = convolve(across, weighed, edge, edge + 1 - stride, rhs_dilation=apart)
        return of_x, of_filters.transpose(1, 2, 0, 3)

    if jax.default_backend() != "cpu":
        return forwards
    written_out = jax.custom_vjp(forwards)
    written_out.defvjp(lambda x, filters: (forwards(x, filters), (x, filters)), backwards)
    return written_out
