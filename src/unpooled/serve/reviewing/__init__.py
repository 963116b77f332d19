"""What an approver sees before deciding."""
