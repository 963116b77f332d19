"""VF_GAIN: an adversarial imputer of the active party that uses passive parties' columns without seeing them."""
