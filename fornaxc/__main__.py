"""`python -m fornaxc`."""

from fornaxc.cli.main import main

main()
