"""Networks of real sizes with seeded random weights, written node by node."""
