"""Tests of lazyrich.bias."""
