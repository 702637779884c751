"""The explorer in one file: stories, or a view of one's own, as a page that needs no server and no network."""

from __future__ import annotations

import argparse
import json
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._files import output_path, write_atomically
from lazyrich._progress import progress
from lazyrich.cli._output import json_document

if TYPE_CHECKING:
    from lazyrich.explorer.state import State
    from lazyrich.explorer.stories import Story

EXAMPLE = "lazyrich export story.html --story staircase"

_ONLY_OF_A_PAGE = ("cursor", "logLoss", "logTime", "story", "step")
_DESCRIPTION = """\
Writes the explorer as one HTML page that opens from a disk, in a frame or on a learning
platform: stories with everything they show computed ahead, for the values that their
sliders have. Without --story and --own it holds all stories: staircase, lazy-rich,
delayed, forgetting, saddle."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
    add = parser.add_argument
    add("file", metavar="FILE", help="page to write, such as story.html")
    add("--story", action="append", default=[], metavar="NAME", help="this story alone; may be given several times")
    add("--own", metavar="ADDRESS", help="a view of your own: what `Copy link` in the explorer gives")
    add("--json", action="store_true", help="print one JSON document instead of a sentence")


def run(arguments: argparse.Namespace) -> None:
    if find_spec("latex2mathml") is None:
        raise ImportError("lazyrich export needs latex2mathml: pip install 'lazyrich[explorer]'.")
    from lazyrich.explorer.one_page import page_with  # here, so that --help needs no extras
    from lazyrich.explorer.recording import recorded, states_of

    path, start = output_path(arguments.file, "story.html"), time.perf_counter()
    if path.suffix not in (".html", ".htm"):
        raise InvalidInput(f"FILE must end in .html, and it is {path}.")
    stories = _stories(arguments.story, arguments.own)
    states = states_of(stories)
    with progress(len(states), "lazyrich export") as moved_on:
        content = page_with(recorded(stories, states, moved_on)).encode()
    write_atomically(path, lambda stream: stream.write(content))
    if arguments.json:
        told = {"file": path, "bytes": len(content), "stories": [story.name for story in stories]}
        print(json_document(told | {"states": len(states), "seconds": time.perf_counter() - start}))
        return
    what = f"{len(stories)} stories" if len(stories) > 1 else f"the story {stories[0].title!r}"
    print(f"{path}: {what}, {len(states)} states, {len(content) / 1e6:.2g} MB. It opens without a server.")


def _stories(names: list[str], own: str | None) -> list[Story]:
    from lazyrich.explorer.recording import own_story
    from lazyrich.explorer.stories import STORIES, story_named

    chosen = [story_named(name) for name in dict.fromkeys(names)]
    if own is not None:
        chosen.append(own_story(_state(own)))
    return chosen or list(STORIES)


def _state(address: str) -> State:
    """Of an address: name=value behind the #, with JSON values."""
    from lazyrich.explorer.state import State

    pairs = dict(parse_qsl(address.partition("#")[2], keep_blank_values=True))
    if not pairs:
        raise InvalidInput(
            f"--own must be the address of a view, such as '#scale=0.01&seed=3', and it is {_check.shown(address)}."
        )
    values = {}
    for name, text in pairs.items():
        try:
            values[name] = json.loads(text)
        except ValueError:
            raise InvalidInput(f"--own must have JSON values, and {name} is {_check.shown(text)}.") from None
    return State.from_dict({name: value for name, value in values.items() if name not in _ONLY_OF_A_PAGE})
