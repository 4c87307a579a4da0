"""The lab: runs things, measures them, and shows the result."""
