"""Pixels -> features: frozen image encoders behind one protocol, loaded by name."""
