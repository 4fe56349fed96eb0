"""docs/datasets.md: every option of every reader is in its table, and nothing else."""

import re
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest

from shortlist.data.protocols import protocol_options
from shortlist.data.sources import SOURCES, reader_options

PAGE = (Path(__file__).parents[3] / "docs" / "datasets.md").read_text()
LINE = re.compile(r"^\| (?:`([a-z0-9-]+)`)? ?\| (.*?) \| (.*) \|$", re.MULTILINE)


def told():
    """Dataset → option → what the page says about it."""
    found, dataset = {}, ""
    for name, options, words in LINE.findall(PAGE.partition("\nOptions of the readers")[2]):
        if name or options.startswith("`"):
            dataset = name or dataset
            found.setdefault(dataset, {}).update(dict.fromkeys(re.findall("`([a-z_]+)`", options), words))
    return found


@pytest.mark.parametrize("name", SOURCES)
def test_every_option_is_on_the_page(name):
    assert sorted(told().get(name, {})) == sorted(reader_options(SOURCES[name]))


@pytest.mark.parametrize("name", SOURCES)
def test_every_choice_of_an_option_is_on_the_page(name):
    for option, hint in reader_options(SOURCES[name]).items():
        for part in (hint, *get_args(hint)):
            for choice in get_args(part) if get_origin(part) is Literal else ():
                assert f"`{choice}`" in told()[name][option]


def common():
    """Option → what the page says about it, of those that every dataset has."""
    section = PAGE.partition("## Options")[2].partition("\nOptions of the readers")[0]
    return dict(re.findall(r"^\| `([a-z_]+)` \| (.*) \|$", section, re.MULTILINE))


def test_every_option_of_every_dataset_is_on_the_page():
    assert sorted(common()) == sorted(protocol_options())
    for option, hint in protocol_options().items():
        for part in (hint, *get_args(hint)):
            for choice in get_args(part) if get_origin(part) is Literal else ():
                assert f"`{choice}`" in common()[option]
