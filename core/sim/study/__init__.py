"""What operators ask of many performance runs: is P/D worth it for a load, and which settings serve most. Pure: it says
which runs it needs, and makes of what they measured a verdict or a recommendation."""
