"""The explorer: a local web server on which people look at the clusters of a run and edit them."""
