"""For people to look at: the report page, the map of the embedding, and clusters taken away as folders or tables."""
