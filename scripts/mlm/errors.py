"""The one kind of error that a user is meant to read."""


class MlmError(Exception):
    """A problem that the user can mend.

    The message says what was found, where, what was expected and what to do.
    It is shown without a traceback.
    """


class ConfigError(MlmError):
    """One or more problems in the configuration, all reported at once.

    `problems` holds one line for each.
    """

    def __init__(self, problems: list[str]):
        self.problems = list(problems)
        count = len(self.problems)
        title = f"The configuration has {count} problem{'s' if count != 1 else ''}:"
        super().__init__("\n".join([title, *(f"  - {p}" for p in self.problems)]))
