"""How a plan's products are protected, and what they say."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Policy
from unpooled.secure import plain
from unpooled.secure.engine import Engine, HowFar, MaskSeed, Rules, Stop
from unpooled.secure.evidence import Commitment
from unpooled.secure.paillier import engine as paillier
from unpooled.secure.paillier import key_holder
from unpooled.secure.product import Contribution, serve
from unpooled.secure.service_limits import MEGABYTE, Serving
from unpooled.secure.shares import dealer
from unpooled.secure.shares import engine as shares
from unpooled.vertical.linear.residuals import MOST_COLUMNS


def rules_of(plan: Plan, questions: int | None = None) -> Rules:
    """The plan's settings for products; a learner that asks often says how many columns it asks about the same rows."""
    return Rules(plan.engine, plan.key_bits, plan.insecure, plan.count_rows, questions)


def answering_limits(policy: Policy) -> tuple[int | None, float | None, int | None]:
    """A party's own limits to what it answers in products and opens of trees, as `open_engine` takes them."""
    return policy.maximum_questions, policy.maximum_bits_per_row, policy.maximum_splits


def answered_in(engine: Engine) -> dict[str, Any]:
    """What a party's result says of what it has answered, and of how many bits it would have answered at the most."""
    counted = {"questions": engine.answered, "bits": engine.bits, "splits": engine.opened}
    found = {name: sum(counts.values()) for name, counts in counted.items()}
    return found | ({"most_bits": sum(engine.most_bits.values())} if engine.most_bits else {})


def waiting_for_end(plan: Plan) -> tuple[str, ...]:
    """Who is told how far the active party is: the seeker, and a coordinator that has something to do."""
    coordinators = plan.with_role("coordinator") if plan.engine != "plain" else []
    return (*plan.with_role("seeker"), *coordinators)


def waiting_outline(plan: Plan) -> list[Exchange]:
    """What those who wait are told; how often depends on how learning goes."""
    return [Exchange(plan.active, party, HowFar) for party in waiting_for_end(plan)]


def commitments_outline(plan: Plan, *, linear: bool) -> list[Exchange]:
    """What owners bind their inputs with, where the plan wants evidence.

    Of trees the active party and each passive one do; of `linear` models all, and the active party twice: it has
    columns and labels.
    """
    if not plan.audit or plan.engine == "plain":
        return []
    pairs = [pair for pair in permutations(plan.owners, 2) if linear or plan.active in pair]
    times = {plan.active: 2} if linear else {}
    return [Exchange(one, other, Commitment, times.get(one, 1), 100 * times.get(one, 1)) for one, other in pairs]


def served(engine: Engine, policy: Policy, common: int | None, classes: int) -> dict[str, Any]:
    """At the coordinator: serve products until there are no more; what it can say of that.

    No product has more rows than twice the common ones for each class, or, turned, than a party has columns.
    """
    rows = None if common is None else max(2 * common * max(classes, 1), MOST_COLUMNS)
    size = serve(engine, Serving(policy.maximum_served_megabytes, rows))
    return {"served_megabytes": round(size / MEGABYTE, 3)}


def products_outline(plan: Plan, *, hidden_nodes: bool) -> list[Exchange]:
    """What products of passive parties' bins with the active party's numbers say; it is the one who is shown them."""
    active, passive, coordinator = plan.active, plan.with_role("passive"), next(iter(plan.with_role("coordinator")), "")
    seeds = [Exchange(first, second, MaskSeed, 1, 100) for first, second in combinations(plan.owners, 2)]
    shown = [Exchange(party, active, Contribution) for party in passive]
    if plan.engine == "plain":
        return [*seeds, *(Exchange(party, active, plain.PlainMatrix) for party in passive), *shown]
    stop = Exchange(active, coordinator, Stop, 1, 50)
    if plan.engine == "paillier":
        return [
            *seeds,
            *(Exchange(coordinator, owner, key_holder.SharedKey, 1, plan.key_bits * 5 // 4) for owner in plan.owners),
            *(Exchange(active, party, paillier.EncryptedRows) for party in passive),
            Exchange(active, coordinator, key_holder.Decrypt),
            *(Exchange(party, coordinator, key_holder.MaskedSums) for party in passive),
            Exchange(coordinator, active, key_holder.Decrypted),
            *shown,
            stop,
        ]
    counted = plan.count_rows and not hidden_nodes
    cheaper = "for columns of few bins" if counted else ""
    return [
        *seeds,
        Exchange(active, coordinator, dealer.Deal),
        *(Exchange(coordinator, party, dealer.Dealt) for party in passive),
        Exchange(coordinator, active, dealer.Dealt, only_if=cheaper),
        *(Exchange(active, party, shares.Hidden) for party in passive),
        *(Exchange(party, active, shares.Hidden, only_if=cheaper) for party in passive),
        *(Exchange(party, active, shares.Orders) for party in passive if counted),
        *shown,
        stop,
    ]


def dense_products_outline(plan: Plan, *, shown: bool) -> list[Exchange]:
    """What products of each owner's columns with all others' numbers say, if `shown` to that owner, or kept in shares.

    The active party always has a column, that of the intercept. Where products are shown it is also shown the loss, in
    which each owner's numbers are multiplied with those of all who stand after it.
    """
    owners, active, coordinator = plan.owners, plan.active, next(iter(plan.with_role("coordinator")), "")
    pairs = list(permutations(owners, 2))

    def multiplied(left: str, right: str) -> str:
        """When the left one's numbers are multiplied with the right one's; always, where that is empty."""
        in_loss = shown and owners.index(left) < owners.index(right)
        return "" if left == active or in_loss else f"if {left} has columns"

    seeds = [Exchange(first, second, MaskSeed, 1, 100) for first, second in combinations(owners, 2)]
    told = [
        Exchange(sender, owner, Contribution, only_if="" if owner == active else f"if {owner} has columns")
        for sender, owner in pairs
        if shown
    ]
    if plan.engine == "plain":
        sent = [Exchange(one, other, plain.PlainMatrix, only_if=multiplied(one, other)) for one, other in pairs]
        return [*seeds, *sent, *told]
    stop = Exchange(active, coordinator, Stop, 1, 50)
    if plan.engine == "paillier":
        lefts = {owner: [multiplied(owner, other) for other in owners if other != owner] for owner in owners}
        return [
            *seeds,
            *(Exchange(coordinator, owner, key_holder.SharedKey, 1, plan.key_bits * 5 // 4) for owner in owners),
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
            stop,
        ]
    return [
        *seeds,
        Exchange(active, coordinator, dealer.Deal),
        *(Exchange(coordinator, owner, dealer.Dealt) for owner in owners),
        *(
            Exchange(
                one, other, shares.Hidden, only_if="" if shown or active in (one, other) else "if either has columns"
            )
            for one, other in pairs
        ),
        *told,
        stop,
    ]
