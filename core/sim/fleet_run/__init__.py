"""Performance runs: the very machines that serve, on executors of which only the time is modelled, without faults.

- `spec`: a fleet as data: topology, profiles, knobs, wires.  `request`: what clients ask.
- `world`: processes, links, devices and wires under the virtual clock.  `parts`: what of it may be replaced.
- `process`: a loop that may be occupied.  `device`: computes in time alone.  `transfer`: bytes over wires.
- `clients`: sends what is due and keeps the facts.  `run`: from a fleet and a load to facts and records.
"""
