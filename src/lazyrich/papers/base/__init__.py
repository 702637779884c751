"""What papers are made of, and what their rooms share.

paper       a paper: what its room holds, loaded when asked for
claim       a statement with a check that can fail
figure      a figure: how it is computed, how it is drawn, and the numbers that make it true
kind        a kind of experiment: what is trained, and what it shows
draws       random problems within given conditions, in plain NumPy
oracles     the truth by brute force: derivatives of the loss itself, integration; no formula of a source
searches    critical points and least losses, found by search
steps       when to look at a run
"""
