"""Metal Shading Language to C++: see cli.py for what it offers, emit_wide.py for what comes out."""
