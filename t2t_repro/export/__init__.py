"""Trained models in other forms: a SavedModel, a CTranslate2 model. `forms` has the table."""
