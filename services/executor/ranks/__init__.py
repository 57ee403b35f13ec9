"""A group of ranks: one executor whose model is split over several processes of one machine.

The executor's own process is the first rank: it has the machine, decides, samples and speaks with everybody. It starts
the other ranks, which hear nobody else: step orders come over one socket, transport commands over another, and parts
of layers are added up over gloo on loopback.
"""
