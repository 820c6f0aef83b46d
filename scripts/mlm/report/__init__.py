"""The page, its figures, and the numbers for machines."""
