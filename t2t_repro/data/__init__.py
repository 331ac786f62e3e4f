"""TFRecord files, and batches of them or of text: `dataset` and `text_dataset`."""

__all__ = ["dataset", "text_dataset"]


def __getattr__(name):
    if name in __all__:
        from t2t_repro.data import pipeline

        return getattr(pipeline, name)
    raise AttributeError(f"module 't2t_repro.data' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})
