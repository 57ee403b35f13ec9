"""The engine: tensors, models, kernels and devices. The only package that may import torch."""
