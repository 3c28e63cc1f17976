"""From a wrong number, or a program that does not compile, to its cause and to a small model that shows it."""
