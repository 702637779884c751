"""Papers, each in a room of its own: its formulas to the letter, its claims, figures, experiments and sweeps.

    base            what papers are made of, and what their rooms share
    shelf           all papers by key, and what they hold by name
    trial           tries claims on random problems, and compares what is found with the verdict on record
    experiment      grids of networks to train, stored, run and resumed as sweeps are
    data            the images that experiments learn from
    gallery         one page with all figures

    saxe2014 braun2022 chizat2019 lampinen2019 saxe2019 kunin2024 tu2024 domine2025 notes post
                    the rooms, each with a README

The library knows nothing of papers, and papers nothing of each other.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
