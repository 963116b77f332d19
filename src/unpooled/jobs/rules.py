"""How a plan's products are protected, and what they say."""

from __future__ import annotations

from itertools import combinations

from unpooled.errors import InputError, PlanError, RefusedError
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan
from unpooled.secure import dealer, paillier, paillier_keeper, paillier_keys, plain, shares
from unpooled.secure.engine import MaskSeed, Rules, Stop
from unpooled.secure.product import Contribution


def rules_of(plan: Plan, questions: int | None = None) -> Rules:
    """The plan's settings for products; a learner that asks often says how many columns it asks about the same rows."""
    return Rules(plan.engine, plan.key_bits, plan.insecure, plan.count_rows, questions)


def check_engine(plan: Plan) -> None:
    """Refuse, before the start, a plan whose products cannot be protected as it says."""
    if plan.engine != "plain" and not plan.with_role("coordinator"):
        raise PlanError(f"engine: {plan.engine} needs a coordinator, which sees no data")
    if plan.engine == "paillier":
        try:
            paillier_keys.check_size(plan.key_bits, insecure=plan.insecure)
        except (InputError, RefusedError) as error:
            raise PlanError(f"key_bits: {error}") from None


def products_outline(plan: Plan, *, hidden_nodes: bool) -> list[Exchange]:
    """What products of passive parties' bins with the active party's numbers say; it is the one who is shown them."""
    active, passive, coordinator = plan.active, plan.with_role("passive"), next(iter(plan.with_role("coordinator")), "")
    seeds = [Exchange(first, second, MaskSeed, 1, 100) for first, second in combinations(plan.owners, 2)]
    shown = [Exchange(party, active, Contribution) for party in passive]
    if plan.engine == "plain":
        return [*seeds, *(Exchange(party, active, plain.Shown) for party in passive), *shown]
    stop = Exchange(active, coordinator, Stop, 1, 50)
    if plan.engine == "paillier":
        return [
            *seeds,
            *(Exchange(coordinator, owner, paillier_keeper.SharedKey, 1, plan.key_bits // 2) for owner in plan.owners),
            *(Exchange(active, party, paillier.EncryptedRows) for party in passive),
            Exchange(active, coordinator, paillier_keeper.Decrypt),
            *(Exchange(party, coordinator, paillier_keeper.MaskedSums) for party in passive),
            Exchange(coordinator, active, paillier_keeper.Decrypted),
            *shown,
            stop,
        ]
    counted = plan.count_rows and not hidden_nodes
    cheaper = "for columns of few bins" if counted else ""
    return [
        *seeds,
        Exchange(active, coordinator, dealer.Deal),
        *(Exchange(coordinator, owner, dealer.Dealt) for owner in plan.owners),
        *(Exchange(active, party, shares.Hidden) for party in passive),
        *(Exchange(party, active, shares.Hidden, only_if=cheaper) for party in passive),
        *(Exchange(party, active, shares.Orders) for party in passive if counted),
        *shown,
        stop,
    ]
