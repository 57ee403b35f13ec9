"""What others were told to do, or to do instead: their orders of things, to be shown beside ours in the simulator.

Nothing outside the simulator may import them: no service can be configured into one of these.
"""
