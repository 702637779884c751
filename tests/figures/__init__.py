"""Tests of lazyrich.figures."""
