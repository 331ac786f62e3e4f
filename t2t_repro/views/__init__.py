"""Pictures of a run or a model: attention, positions, samples."""
