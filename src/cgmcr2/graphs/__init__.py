"""Neighbour graphs and their spectra: k-nearest neighbours, random walk, spectral clustering, self-expression."""
