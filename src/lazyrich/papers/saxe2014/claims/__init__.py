"""Saxe et al. 2014, as far as the other sources rest on it.

    unequal_layers   eqs. 25 and 26

A topic also lists what was judged not checkable.
"""
