"""What every service runs on: driver, lifecycle, settings, admin endpoint, log."""
