"""The disk cache of listings."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from proxy.catalog.cache import ListingCache
from proxy.catalog.records import Listing

LISTING = Listing(
    tools=({"name": "big", "inputSchema": {"const": 2**60}, "x-vendor": ["ü", "\ud800"]},),
    protocol_version="2025-11-25",
    capabilities={"tools": {}},
    server_info={"name": "s", "version": "1"},
    instructions="use it",
    problems=("one",),
)


def test_a_listing_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    cache = ListingCache(tmp_path / "listings")
    cache.store("id", LISTING)
    assert cache.load("id") == LISTING


def test_only_the_owner_can_read_the_folder(tmp_path: Path) -> None:
    cache = ListingCache(tmp_path / "listings")
    cache.store("id", LISTING)
    assert stat.S_IMODE((tmp_path / "listings").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "listings" / "id.json").stat().st_mode) == 0o600


def test_an_unknown_identity_has_no_listing(tmp_path: Path) -> None:
    assert ListingCache(tmp_path).load("nothing") is None


def test_a_damaged_file_counts_as_no_listing(tmp_path: Path) -> None:
    (tmp_path / "id.json").write_text('{"tools": 3')
    assert ListingCache(tmp_path).load("id") is None


def test_storing_leaves_no_other_file_behind(tmp_path: Path) -> None:
    cache = ListingCache(tmp_path)
    cache.store("id", LISTING)
    cache.store("id", LISTING)
    assert [path.name for path in tmp_path.iterdir()] == ["id.json"]


def test_the_age_counts_from_the_last_confirmation(tmp_path: Path) -> None:
    cache = ListingCache(tmp_path)
    assert cache.age_s("id") == float("inf")
    cache.store("id", LISTING)
    os.utime(tmp_path / "id.json", (0, 0))
    assert cache.age_s("id") > 1e9
    cache.store("id", LISTING)
    assert cache.age_s("id") < 1e6
