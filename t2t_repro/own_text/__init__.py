"""From your own text to a served model: the programs as stages."""
