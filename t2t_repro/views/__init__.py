"""What is drawn of a run or a model: attention, positions, samples."""
