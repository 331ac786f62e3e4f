"""The catalogue of problems. The registry imports every module of this folder."""
