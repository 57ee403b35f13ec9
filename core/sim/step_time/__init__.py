"""How long steps take: a step in figures, models over them, profiles of real executors, and how they are fitted.

- `features`: the figures of one step, of a plan or of what an executor remembers of its steps.
- `model`: seconds of a step by its kind: affine terms with knees and tables, in pieces; host time; residual noise.
- `profile`: a model with its source as a file of JSON; those that ship with the package lie in `profiles/`.
- `fit`: a model from observed steps, with the errors of the fit.
- `fuzzed`: what the fuzzed world uses, where only order and overlap of steps matter.
"""
