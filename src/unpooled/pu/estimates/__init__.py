"""What can be estimated without the truth: priors, calibration, typicality, when to stop."""
