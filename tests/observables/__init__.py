"""Tests of lazyrich.observables."""
