"""Tests of lazyrich.landscape."""
