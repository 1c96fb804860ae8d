from __future__ import annotations

import pytest

from cgmcr2.experiments.catalog import find_item, list_items


def test_every_table_and_figure_of_the_paper_is_listed_in_order() -> None:
    tables = [f"table-{number}" for number in (1, 2, 3, 4, 5, 6, 7)]
    tables += [f"table-{number}" for number in ("a1", "a2", "a3", "a4", "a5", "b6", "b7", "b8", "b9")]
    figures = [f"figure-{number}" for number in (1, 2, 3, 4, 5, "b1", "b2", "b3", "b4")]
    assert [item.name for item in list_items()] == [*tables, *figures]


def test_items_are_found_by_name_number_and_topic() -> None:
    assert find_item("Table B.7") is find_item("affinity") is find_item("table-b7")
    assert find_item("t-sne").name == "figure-b1"
    with pytest.raises(ValueError, match="There is no table or figure 'figure-9'; choose from table-1, table-2"):
        find_item("figure-9")
