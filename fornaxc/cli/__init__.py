"""The command line: one file a verb, each of which calls one function of the API and prints what it returns."""
