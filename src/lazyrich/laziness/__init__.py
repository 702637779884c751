"""How lazy or rich a run was: one definition, for exact trajectories and for any network of your own.

definition  course      what counts as lazy, rich and delayed rich, from movements over time
measuring  result       checkpoints of any JAX or PyTorch model, measured (`runs`: `jax_models`, `torch_models`)
monitor  pace  records  the same beside a training run: how often, and what was seen; `adapters` for loops of others
kernel  tangent         the tangent kernel, whole or as a sketch with its error; `reference` keeps the first one
scaling                 the same model with layers rescaled
words                   what is said about it
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
