"""What we generate for: the facts about a machine, and their detection."""
