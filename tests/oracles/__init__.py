"""References that share no code with lazyrich: slow, plain, and precise enough to judge it."""
