"""The shield: how far a robot's model may be trusted, and what to do where it may not."""
