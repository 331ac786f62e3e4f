"""The door of `python -m t2t_repro.trainer`."""

from t2t_repro.bin.trainer import console

if __name__ == "__main__":
    console()
