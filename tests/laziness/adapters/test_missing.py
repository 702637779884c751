"""Without a framework, its adapter answers with the pip command."""

from __future__ import annotations

import importlib
import sys

import pytest

import lazyrich as lr


@pytest.mark.parametrize(
    ("name", "lacks", "extra"),
    [
        ("LightningMonitor", "lightning.pytorch", "lightning"),
        ("HuggingFaceMonitor", "transformers", "huggingface"),
        ("FlaxMonitor", "flax.linen", "flax"),
    ],
)
def test_the_pip_command_is_told(monkeypatch, name, lacks, extra):
    if name == "HuggingFaceMonitor":
        pytest.importorskip("torch")
    module = f"lazyrich.laziness.adapters.{extra}"
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, lacks, None)
    with pytest.raises(ImportError, match=rf"{name} needs .*: pip install 'lazyrich\[{extra}\]'\."):
        importlib.import_module(module)
    assert name in lr.laziness.adapters.__all__
