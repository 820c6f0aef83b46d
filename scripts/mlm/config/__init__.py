"""The configuration: a typed model for each section, from which all else is generated."""
