"""StableHLO (text, MLIR bytecode, portable artifacts, serialized jax.export files) to IR."""
