"""From text of one's own to a served model: the programs, one after the other, as stages."""
