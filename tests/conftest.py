"""What every test shares: hypothesis without deadlines, since a loaded machine must not fail a test by being slow."""

from hypothesis import HealthCheck, settings

settings.register_profile("baton", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("baton")
