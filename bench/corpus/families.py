"""All families with all their tasks, those that are set aside, the fresh and the unseen ones among them.

Above: running.py and the tests. Below: the plans, and the files that writers of checks do not open.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench.corpus.family import Family
from bench.corpus.plans import (
    call_times,
    config_commit,
    customer_orders,
    fresh_count_gaps,
    fresh_limit_watch,
    fresh_object_trail,
    fresh_part_commit,
    git_changes,
    ledgers,
    letter_names,
    price_page,
    room_swap,
    set_aside_region_report,
    set_aside_tasks,
    stock_delivery,
    supplier_notes,
    team_graph,
    unseen_first_change,
    unseen_merged_twins,
    unseen_missing_bills,
    unseen_moved_members,
    unseen_sorted_post,
    unseen_talk_times,
    unseen_tariffs,
    unseen_year_ranks,
)
from bench.corpus.split import FRESH, UNSEEN

_DEVELOPMENT: tuple[Family[Any], ...] = (
    ledgers.FAMILY,
    customer_orders.FAMILY,
    stock_delivery.FAMILY,
    git_changes.FAMILY,
    config_commit.FAMILY,
    team_graph.FAMILY,
    room_swap.FAMILY,
    call_times.FAMILY,
    price_page.FAMILY,
    supplier_notes.FAMILY,
    letter_names.FAMILY,
)

FAMILIES: tuple[Family[Any], ...] = (
    *(replace(family, tasks={**family.tasks, **set_aside_tasks.TASKS.get(family.name, {})}) for family in _DEVELOPMENT),
    set_aside_region_report.FAMILY,
    fresh_object_trail.FAMILY,
    fresh_count_gaps.FAMILY,
    fresh_limit_watch.FAMILY,
    fresh_part_commit.FAMILY,
    unseen_missing_bills.FAMILY,
    unseen_first_change.FAMILY,
    unseen_merged_twins.FAMILY,
    unseen_sorted_post.FAMILY,
    unseen_talk_times.FAMILY,
    unseen_moved_members.FAMILY,
    unseen_tariffs.FAMILY,
    unseen_year_ranks.FAMILY,
)

IDS: tuple[str, ...] = tuple(task for family in FAMILIES for task in family.tasks)
"""Of all tasks."""

SPLIT: tuple[str, ...] = tuple(
    task for family in FAMILIES if family.name not in FRESH | UNSEEN for task in family.tasks
)
"""Of the tasks that are either for development or set aside."""
