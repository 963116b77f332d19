"""A page about a plan: what each party could infer about the others, as attacks on a simulated run have found it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from unpooled import atomic
from unpooled.attacks.audit import Audit
from unpooled.attacks.findings import ATTACKS, Finding
from unpooled.drawing.blocks import shortened
from unpooled.drawing.html import render
from unpooled.drawing.words import percent
from unpooled.version import __version__

_TEMPLATE = Path(__file__).parent / "templates" / "attacks.html"
_LEFT, _RIGHT, _WIDTH, _TOP, _STEP, _HEADING = 180, 540, 640, 40, 30, 34


@dataclass(frozen=True)
class Line:
    """A bar from a guess to what was reached, or a heading, which has none."""

    words: str
    middle: float
    heading: bool
    width: float = 0.0
    level: str = ""
    figure: str = ""


@dataclass(frozen=True)
class Bars:
    """A line for each seat below a heading for each attack."""

    height: float
    lines: tuple[Line, ...]
    left: float = _LEFT
    right: float = _RIGHT
    width: float = _WIDTH


def write_attacks(audit: Audit, page: Path) -> Path:
    """Write the page, for the party that asked."""
    atomic.write_text(page, draw_attacks(audit))
    return page


def draw_attacks(audit: Audit) -> str:
    """The page; everything from a plan is escaped."""
    return render(
        _TEMPLATE,
        audit=audit,
        attacks={attack.name: attack for attack in ATTACKS},
        bars=bars_of(audit),
        summary=in_a_sentence(audit),
        figures={id(finding): figure_of(finding) for finding in audit.findings},
        key=id,
        version=__version__,
    )


def in_a_sentence(audit: Audit) -> str:
    """What matters most: the attacks on the party that asked, or on what it takes part in, that find something out."""
    found = {level: _titles(audit, level) for level in ("much", "something")}
    if not any(found.values()):
        return "No attack finds out more than a guess."
    told = [f"{level} is found out by: {', '.join(titles)}" for level, titles in found.items() if titles]
    sentence = "; ".join(told)
    return f"{sentence[0].upper()}{sentence[1:]}."


def figure_of(finding: Finding) -> str:
    """A score as it is written."""
    return f"AUC {finding.score:.2f}" if finding.measure == "auc" else percent(finding.score)


def bars_of(audit: Audit) -> Bars:
    """Lay out a bar for each finding, from a guess at the left to certainty at the right."""
    lines, at = list[Line](), float(_TOP)
    for attack in ATTACKS:
        found = [finding for finding in audit.findings if finding.attack == attack.name]
        if not found:
            continue
        lines.append(Line(attack.title, at + _HEADING / 2, heading=True))
        at += _HEADING
        for finding in found:
            reached = min(abs(finding.score - finding.guess) / (1 - finding.guess), 1.0)
            width = round((_RIGHT - _LEFT) * reached, 1)
            lines.append(
                Line(shortened(finding.party), at + _STEP / 2, False, width, finding.level, figure_of(finding))
            )
            at += _STEP
    return Bars(at + 10, tuple(lines))


def _titles(audit: Audit, level: str) -> list[str]:
    found = {finding.attack for finding in audit.findings if finding.level == level}
    return [attack.title[0].lower() + attack.title[1:] for attack in ATTACKS if attack.name in found]
