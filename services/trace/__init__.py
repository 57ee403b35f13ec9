"""`baton trace`: asks every process what it did lately and puts it together."""
