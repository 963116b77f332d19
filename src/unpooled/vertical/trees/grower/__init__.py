"""Growing trees: the active party's part, the passive parties', and what both use."""
