"""Dynamics predictors: they learn offline how robots move, and online which robot this is."""
