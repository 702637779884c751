"""A `Monitor` in the training loops of others, each an extra of its own: thin, for all that is measured is elsewhere.

lightning     a callback, which logs to the loggers of the Trainer
huggingface   a callback, which adds to what the Trainer logs when it logs
flax          modules of Flax (NNX and Linen) as a Monitor takes them

Plain PyTorch and equinox need none: `lr.laziness.Monitor` in the loop.

>>> sorted(lr.laziness.adapters.__all__)
['FlaxMonitor', 'HuggingFaceMonitor', 'LightningMonitor']
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
