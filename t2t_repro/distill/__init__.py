"""Distillation, self-training, back-translation: a student learns from a teacher's text."""
