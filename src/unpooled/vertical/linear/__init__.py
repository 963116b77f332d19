"""Linear and logistic regression on columns that different parties hold."""
