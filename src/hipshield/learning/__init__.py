"""Learning: policies and critics, policy steps, constraints, SRO, and the training loop."""
