"""What hiding nodes costs and what showing them gives away, told before a job starts.

How long products take is by the same figures as the engine goes by when it chooses a method, for columns with as many
bins as the plan allows. The rest of a job is the same either way.
"""

from __future__ import annotations

from unpooled.secure.calls import Call, OneHot
from unpooled.secure.engine import Rules
from unpooled.secure.shares.supply import permutation_seconds, triple_seconds
from unpooled.vertical.trees.budget import nodes_asked
from unpooled.vertical.trees.parameters import AnyTrees, sums_of

DEAR = 2.0
"""Where hidden nodes take more than so many times as long, it is said."""
_ROWS, _COLUMNS = 10**5, 10
_GIVEN_AWAY = "passive parties would see which rows are together in each node, and could guess from that who is alike"
_MEASURED = (
    "On 6,000 rows of Credit a party with columns of noise ranked the seeker's people so with an AUC of 0.79, and "
    "knowing ten of them with 0.85 (0.5 is a guess)"
)


def said_before(rules: Rules, parameters: AnyTrees, secret_labels: bool) -> list[str]:
    """What the plan chooses: what shown nodes give away, and what hidden ones cost where that is much."""
    measured = f" {_MEASURED}." if secret_labels else ""
    if not parameters.hide_nodes:
        given_away = _GIVEN_AWAY.replace("would see", "see").replace("could guess", "can guess")
        return [f"Nodes are shown (hide_nodes = false): {given_away}.{measured}"]
    cost = hidden_cost(rules, parameters)
    if cost <= DEAR:
        return []
    dearer = (
        f"which encrypts all rows up to {cost:,.0f} times for a tree instead of once"
        if rules.engine == "paillier"
        else f"for which products take about {cost:,.0f} times as long as if they were shown"
    )
    return [
        f"Nodes are hidden, {dearer}: the deeper trees are, the more (depth = {parameters.depth}). With "
        f"hide_nodes = false in the plan {_GIVEN_AWAY}.{measured}"
    ]


def hidden_cost(rules: Rules, parameters: AnyTrees) -> float:
    """How many times as long the products of a tree take with hidden nodes as with shown ones.

    With `paillier` each step encrypts all rows anew, and with shown nodes the first one alone.
    """
    asked = nodes_asked(parameters, _ROWS)
    if rules.engine == "paillier":
        return float(len(asked))
    if rules.engine == "plain":
        return 1.0
    hidden = shown = 0.0
    for step, nodes in enumerate(asked):
        call = Call(
            terms=(("passive", "active"),),
            receiver="active",
            rows=_ROWS,
            left=OneHot((parameters.bins,) * _COLUMNS, nodes),
            columns=sums_of(parameters),
            bound=2**parameters.precision - 1,
            x="bins",
        )
        part = _ROWS // 2 if step else _ROWS  # of two siblings the smaller one is asked about
        hidden += triple_seconds(call)
        shown += min(permutation_seconds(call) * part / _ROWS, triple_seconds(call))
    return hidden / shown
