"""What was measured of requests, what the figures mean, and the report: for the load generator and the simulator."""
