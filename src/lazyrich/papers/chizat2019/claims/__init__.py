"""The lazy limit of linear networks, after Chizat et al. 2019.

tangent       the tangent model in closed form: two layers, and any number
multiplier    how a network gets lazy as its output multiplier grows: how fast, what stays, and when it does not
"""
