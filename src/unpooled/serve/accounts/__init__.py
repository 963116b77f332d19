"""Who may do what: people with roles, their sessions in browsers, and tokens for programs."""
