"""What every byte of a text payload says, in one pass: statements, shapes, tallies. `core/card` chooses from it."""
