"""What clients may ask and how they are answered: typed bodies, their limits, handlers, answers."""
