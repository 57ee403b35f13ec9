"""Devices: what computes step plans on KV memory of its own."""
