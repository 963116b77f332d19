"""How good predictions are if no negatives are known: from held-out known positives, and a prior.

Let r be the fraction of held-out known positives that is predicted as positive, q the fraction of unlabelled rows that
is, and a the fraction of positives among the unlabelled rows. If known positives are a random sample of all, r is about
the recall, and everything else follows. The held-out rows must not have been learned from as positives. Estimates are
clipped to what is possible.

>>> predicted_known, predicted_unlabelled = np.array([1, 1, 1, 0]), np.array([1, 1, 0, 0, 0, 0, 0, 0])
>>> summary(predicted_known, predicted_unlabelled, prior=0.25)
{'recall': 0.75, 'precision': 0.75, 'f1': 0.75, 'accuracy': 0.875, 'lee_liu': 2.25}
"""

from __future__ import annotations

import numpy as np

from unpooled.arrays import Floats
from unpooled.errors import InputError
from unpooled.evaluate.metrics import Undefined, Values
from unpooled.evaluate.metrics import auc as auc_of_classes


def recall(known: Values) -> float:
    """r: the fraction of held-out known positives that is predicted as positive (1, others 0)."""
    if not len(known):
        raise Undefined("recall: no known positive was held out")
    return float(np.mean(known == 1))


def precision(known: Values, unlabelled: Values, prior: float) -> float:
    """a r / q, at most 1: the fraction of rows predicted as positive that is positive."""
    return min(_checked(prior) * recall(known) / _predicted(unlabelled, "precision"), 1.0)


def f1(known: Values, unlabelled: Values, prior: float) -> float:
    """2 a r / (a + q), at most 1: the harmonic mean of precision and recall."""
    return min(2.0 * _checked(prior) * recall(known) / (prior + float(np.mean(unlabelled == 1))), 1.0)


def accuracy(known: Values, unlabelled: Values, prior: float) -> float:
    """1 - a - q + 2 a r, between 0 and 1: neither missed, a (1 - r), nor wrongly predicted, q - a r."""
    wrong = max(float(np.mean(unlabelled == 1)) - _checked(prior) * recall(known), 0.0)
    return max(1.0 - prior * (1.0 - recall(known)) - wrong, 0.0)


def lee_liu(known: Values, unlabelled: Values) -> float:
    """r² / q, for comparing predictions if not even the prior is known (Lee and Liu, ICML 2003).

    It is proportional to precision × recall, with the unknown factor a.
    """
    return recall(known) ** 2 / _predicted(unlabelled, "lee and liu's criterion")


def auc(known: Floats, unlabelled: Floats, prior: float) -> float:
    """(A - a / 2) / (1 - a), at most 1, where A is the AUC of held-out known positives against unlabelled rows.

    Because A is ½ on the fraction a of the unlabelled rows that is positive itself (Menon et al., ICML 2015; Jain,
    White and Radivojac, AAAI 2017).
    """
    if _checked(prior) == 1.0:
        raise Undefined("auc: all unlabelled rows are positive")
    truth = np.append(np.ones(len(known)), np.zeros(len(unlabelled)))
    measured = auc_of_classes(truth, np.append(known, unlabelled))
    return min(max((measured - prior / 2.0) / (1.0 - prior), 0.0), 1.0)


def summary(known: Values, unlabelled: Values, prior: float) -> dict[str, float]:
    """All metrics of predictions that are defined."""
    found = {"recall": recall(known)}
    if (unlabelled == 1).any():
        found["precision"] = precision(known, unlabelled, prior)
    found |= {"f1": f1(known, unlabelled, prior), "accuracy": accuracy(known, unlabelled, prior)}
    if (unlabelled == 1).any():
        found["lee_liu"] = lee_liu(known, unlabelled)
    return found


def _predicted(unlabelled: Values, what: str) -> float:
    prior = float(np.mean(unlabelled == 1)) if len(unlabelled) else 0.0
    if not prior:
        raise Undefined(f"{what}: no unlabelled row is predicted as positive")
    return prior


def _checked(prior: float) -> float:
    if not 0.0 < prior <= 1.0:
        raise InputError("prior: the fraction of positives must be above 0 and at most 1")
    return prior
