"""Qualification: suites of cases through the whole path, each with the phase it reached and its error."""
