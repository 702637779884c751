"""The four experiments of Fig. 5: `lenet` (5a), `filters` (5b, with `resnet`), `rhm` (5c) and `grokking` (5d).

`loop` trains their networks; `presets` holds their sizes: as published, for a laptop, and for a first look.
"""
