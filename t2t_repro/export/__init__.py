"""Trained models in other forms; `forms.FORMS` has them."""
