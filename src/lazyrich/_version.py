"""The version of lazyrich, as `pyproject.toml` has it too."""

__version__ = "0.1.0"
