"""Seeing the worlds: drawings, three-dimensional pictures, videos."""
