"""Studies: named variants by seeds, trained by this project's programs; results and one page."""
