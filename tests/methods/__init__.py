"""How exact the exact methods are."""
