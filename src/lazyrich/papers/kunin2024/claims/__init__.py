"""Kunin et al. 2024, "Get rich quick", main text and appendix, in their order.

    neuron                  one hidden neuron: its flow, its critical points, what is conserved, μ and φ
    neuron_solutions        its exact solutions for δ = 0 and δ > 0, and the way back to the weights
    neuron_downstream       δ < 0: changes of sign, and basins of attraction
    neuron_regimes          its function space, its kernel, and the limits δ → ±∞
    neuron_mirror           a mirror flow in another time: potentials
    neuron_bias             which of many solutions it ends in
    wide                    many neurons: what they represent and conserve, and how their weights move
    preconditioner          M over the neurons (Theorem 2), one neuron, and large |δ|
    regimes                 lazy, rich and delayed rich by sizes and the sign of δ (Theorem 6)
    isotropic               Δ = δI: Lemmas 8 and 9, Theorem 3, limits of M
    spectrum                singular values: their flow and their mirror flow
    deep                    more layers
    piecewise               piecewise linear networks: how each neuron moves
    piecewise_limits        δ ≪ 0, δ = 0 and δ ≫ 0: what moves, and how fast
    regions                 activation regions, their colours, and what such networks represent
    settings                experimental details: the student's start, filters, hierarchies, infinite width

A topic also lists what was judged not checkable.
"""
