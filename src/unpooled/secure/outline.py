"""Who takes part in a job's products, how these are protected, and which messages that takes: told before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, permutations

from unpooled.secure import plain
from unpooled.secure.engine import MaskSeed, Rules, Stop
from unpooled.secure.evidence import Commitment
from unpooled.secure.paillier import engine as paillier
from unpooled.secure.paillier import key_holder
from unpooled.secure.product import Contribution
from unpooled.secure.shares import dealer, opening, permuting
from unpooled.wire import Disclosure, disclosure_of, kind_of


@dataclass(frozen=True)
class Exchange:
    """One kind of message from one party to another: how often, and about how many bytes in all.

    Where that depends on how many rows the parties have, which the plan does not know, both are None. `only_if` says
    when a message is sent that is not part of every run.
    """

    sender: str
    receiver: str
    message: type
    frames: int | None = None
    bytes: int | None = None
    only_if: str = ""

    @property
    def kind(self) -> str:
        return kind_of(self.message)

    @property
    def disclosure(self) -> Disclosure:
        return disclosure_of(self.message)


@dataclass(frozen=True)
class Setup:
    """The owners of columns in the plan's order, the coordinator if there is one, and how products are protected.

    With `audit` all owners keep evidence, unless nothing is hidden.
    """

    owners: tuple[str, ...]
    active: str
    coordinator: str | None
    rules: Rules
    audit: bool = False

    @property
    def passive(self) -> tuple[str, ...]:
        return tuple(owner for owner in self.owners if owner != self.active)


def commitments_outline(setup: Setup, *, all_owners: bool) -> list[Exchange]:
    """Commitments to inputs, where the plan wants evidence: between the active party and each passive one.

    With `all_owners` also among the passive ones, and the active party commits twice: to its columns and its labels.
    """
    if not setup.audit or setup.rules.engine == "plain":
        return []
    pairs = [pair for pair in permutations(setup.owners, 2) if all_owners or setup.active in pair]
    times = {setup.active: 2} if all_owners else {}
    return [Exchange(one, other, Commitment, times.get(one, 1), 100 * times.get(one, 1)) for one, other in pairs]


def engine_outline(setup: Setup) -> tuple[list[Exchange], list[Exchange]]:
    """What is sent once, however many products there are: before the first one, and after the last."""
    owners, rules, coordinator = setup.owners, setup.rules, setup.coordinator or ""
    begin = [Exchange(first, second, MaskSeed, 1, 100) for first, second in combinations(owners, 2)]
    if rules.engine == "paillier":
        begin += [Exchange(coordinator, owner, key_holder.SharedKey, 1, rules.key_bits * 5 // 4) for owner in owners]
    return begin, [] if rules.engine == "plain" else [Exchange(setup.active, coordinator, Stop, 1, 50)]


def products_outline(setup: Setup, *, hidden_nodes: bool, shown_to_passive: bool = False) -> list[Exchange]:
    """The messages of products of passive parties' bins with the active party's numbers.

    They are shown to the active party, or each to the passive party whose bins they are of.
    """
    active, passive, coordinator = setup.active, setup.passive, setup.coordinator or ""
    pairs = [(active, party) if shown_to_passive else (party, active) for party in passive]
    shown = [Exchange(sender, receiver, Contribution) for sender, receiver in pairs]
    if setup.rules.engine == "plain":
        return [*(Exchange(party, active, plain.PlainMatrix) for party in passive), *shown]
    if setup.rules.engine == "paillier":
        return [
            *(Exchange(active, party, paillier.EncryptedRows) for party in passive),
            Exchange(active, coordinator, key_holder.Decrypt),
            *(Exchange(party, coordinator, key_holder.MaskedSums) for party in passive),
            Exchange(coordinator, active, key_holder.Decrypted),
            *shown,
        ]
    counted = setup.rules.count_rows and not hidden_nodes
    cheaper = "for columns of few bins" if counted else ""
    return [
        Exchange(active, coordinator, dealer.Deal),
        *(Exchange(coordinator, party, dealer.Dealt) for party in passive),
        Exchange(coordinator, active, dealer.Dealt, only_if=cheaper),
        *(Exchange(active, party, opening.Hidden) for party in passive),
        *(Exchange(party, active, opening.Hidden, only_if=cheaper) for party in passive),
        *(Exchange(party, active, permuting.Orders) for party in passive if counted),
        *shown,
    ]


def dense_products_outline(setup: Setup, *, shown: bool) -> list[Exchange]:
    """The messages of products of each owner's columns with all others' numbers: `shown` to it, or kept in shares.

    The active party always has a column, that of the intercept. Where products are shown it is also shown the loss, in
    which each owner's numbers are multiplied with those of all owners after it.
    """
    owners, active, coordinator = setup.owners, setup.active, setup.coordinator or ""
    pairs = list(permutations(owners, 2))

    def multiplied(left: str, right: str) -> str:
        """When the left party's numbers are multiplied with the right one's; empty if always."""
        in_loss = shown and owners.index(left) < owners.index(right)
        return "" if left == active or in_loss else f"if {left} has columns"

    told = [
        Exchange(sender, owner, Contribution, only_if="" if owner == active else f"if {owner} has columns")
        for sender, owner in pairs
        if shown
    ]
    if setup.rules.engine == "plain":
        sent = [Exchange(one, other, plain.PlainMatrix, only_if=multiplied(one, other)) for one, other in pairs]
        return [*sent, *told]
    if setup.rules.engine == "paillier":
        lefts = {owner: [multiplied(owner, other) for other in owners if other != owner] for owner in owners}
        return [
            *(Exchange(one, other, paillier.EncryptedRows, only_if=multiplied(other, one)) for one, other in pairs),
            Exchange(active, coordinator, key_holder.Decrypt),
            *(
                Exchange(owner, coordinator, key_holder.MaskedSums, only_if=min(conditions))
                for owner, conditions in lefts.items()
            ),
            *(
                Exchange(
                    coordinator,
                    owner,
                    key_holder.Decrypted,
                    only_if="if a passive party has columns" if owner == active == owners[0] else "",
                )
                for owner in owners
            ),
            *told,
        ]
    return [
        Exchange(active, coordinator, dealer.Deal),
        *(Exchange(coordinator, owner, dealer.Dealt) for owner in owners),
        *(
            Exchange(
                one, other, opening.Hidden, only_if="" if shown or active in (one, other) else "if either has columns"
            )
            for one, other in pairs
        ),
        *told,
    ]
