"""The built-in page: HTML, script, style and icon, as they are sent."""
