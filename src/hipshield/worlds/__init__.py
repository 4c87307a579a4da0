"""The worlds: robots, tasks, hidden parameters, and the environment that steps them."""
