"""The parts of the training loop: plan, loader, schedule, state, evaluation, records."""
