"""Information value and weight of evidence (WoE) of all parties' columns, without showing anybody's counts."""
