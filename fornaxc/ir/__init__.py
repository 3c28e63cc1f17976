"""The internal graph representation: types, symbolic dims, operations, graphs, builder, checker, printer."""
