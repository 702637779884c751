"""Figures on Saxe, McClelland and Ganguli 2019."""
