from __future__ import annotations

from cgmcr2.experiments.formats import latex_table, markdown_table, plain_table

HEADER = ["", "CIFAR-10 ACC %"]
ROWS = [["k-means, good & new", "100.0 ± 0.0"], ["argmax on Π | head", "9.5"]]


def test_latex_is_escaped_in_cells_and_caption() -> None:
    lines = latex_table("table-0", "50 % of CgMCR²_x.", HEADER, ROWS).splitlines()
    assert r"\caption{50 \% of CgMCR$^2$\_x.}" in lines
    assert r"\label{tab:table-0}" in lines
    assert r"\begin{tabular}{lc}" in lines
    body = [line.removesuffix(r"\\") for line in lines if line.endswith(r"\\")]
    assert body[0].split("&")[1].strip() == r"CIFAR-10 ACC \%"
    assert body[1].replace(r"\&", "and").split("&")[1].strip() == r"100.0 $\pm$ 0.0"
    assert r"argmax on $\Pi$" in body[2]


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    lines = markdown_table(HEADER, ROWS).splitlines()
    assert r"argmax on Π \| head" in lines[3]
    assert {line.replace(r"\|", "").count("|") for line in lines} == {3}


def test_the_last_alignment_holds_for_all_further_columns() -> None:
    rule = markdown_table(["a", "b", "c", "d"], [["x"] * 4], align="lcr").splitlines()[1]
    assert [cell.count(":") + 2 * cell.startswith(":") for cell in rule.strip("|").split("|")] == [3, 4, 1, 1]


def test_numbers_are_not_reformatted() -> None:
    assert "1.50" in plain_table(["a", "b"], [["x", "1.50"]])
    assert plain_table(["a", "b"], []).split() == ["a", "b"]
