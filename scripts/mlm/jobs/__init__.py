"""What surrounds a rule's one call: its log, its lock, its record, and why it runs again."""
