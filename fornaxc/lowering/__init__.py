"""From the IR to MAX graphs: one rule an operation, by family. Only the compile worker imports the rules."""
