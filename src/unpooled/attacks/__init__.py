"""Attacks: what an honest but curious party can infer from what it sees in a job, measured in a simulation.

Each module named after an attack turns what a party has seen into guesses; `audit` runs a job with simulated parties
and tells how good they are.
"""
