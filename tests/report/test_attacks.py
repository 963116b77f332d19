"""The page about attacks: a bar and a sentence for each finding, and everything is escaped."""

from __future__ import annotations

from unpooled.attacks.audit import Audit
from unpooled.attacks.findings import Finding
from unpooled.report.attacks import bars_of, draw_attacks, in_a_sentence

FOUND = (
    Finding("leaf_sizes", "passive", "telco", "shop", "auc", 0.79, 0.5, "much", "telco ranks <rows>.", None),
    Finding("leaf_sizes", "coordinator", "helper", "shop", "auc", 0.5, 0.5, "nothing", "helper sees nothing.", None),
    Finding("two_runs", "passive", "telco", "bank", "fraction", 1.0, 0.0, "much", "It names 10 of them.", None),
)
AUDIT = Audit("lookalike", "bank", 3000, 60, FOUND, ("telco: columns of noise",))


def test_a_bar_goes_from_a_guess_to_what_was_reached() -> None:
    bars = bars_of(AUDIT)
    drawn = [line for line in bars.lines if not line.heading]
    assert [line.words for line in bars.lines if line.heading] == ["Leaf sizes", "Differences of two runs"]
    whole = bars.right - bars.left
    assert [round(line.width / whole, 2) for line in drawn] == [0.58, 0.0, 1.0]
    assert [line.figure for line in drawn] == ["AUC 0.79", "AUC 0.50", "100.0 %"]
    assert bars.height > drawn[-1].middle


def test_the_page_has_sentences_levels_and_what_lowers_a_score() -> None:
    page = draw_attacks(AUDIT)
    assert "telco ranks &lt;rows&gt;." in page
    assert "hide_nodes = true" in page
    assert page.count('<span class="tag">much</span>') == 2
    assert "Telco: columns of noise." in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_the_summary_names_what_is_found_out() -> None:
    assert in_a_sentence(AUDIT) == "Much is found out by: leaf sizes, differences of two runs."
    nothing = Audit("lookalike", "bank", 3000, 60, FOUND[1:2], ())
    assert in_a_sentence(nothing) == "No attack finds out more than a guess."
