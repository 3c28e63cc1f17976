"""What is known to work on each target: the evidence of qualification runs, per operator and version of its schema."""
