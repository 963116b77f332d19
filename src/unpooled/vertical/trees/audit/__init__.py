"""Audits of trees: evidence that is kept, replaying what an honest party would have sent, comparing."""
