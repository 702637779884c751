"""Saxe, McClelland and Ganguli 2014, "Exact solutions to the nonlinear dynamics of learning"."""
