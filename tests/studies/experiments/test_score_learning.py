"""Every score is trained at every width, and the sentences follow the losses."""

import pytest

from t2t_repro.layers import attention_score
from t2t_repro.studies.experiments import copying
from t2t_repro.studies.experiments import score_learning as experiment
from t2t_repro.studies.experiments.score_learning import ADDITIVE, DOT, SCALED, Row


def rows_of(**other) -> list[Row]:
    """Rows of losses at the three widths; the second seed has a tenth more."""
    of = {"DOT": (0.5, 0.4, 1.5), "SCALED": (0.5, 0.3, 0.2), "ADDITIVE": (0.55, 0.3, 0.4)} | other
    return [
        Row(getattr(experiment, name), width, seed, loss + seed / 10, 1 - loss / 2)
        for name, losses in of.items()
        for width, loss in zip(experiment.WIDTHS, losses, strict=True)
        for seed in range(experiment.SEEDS)
    ]


def test_a_score_and_a_width_are_the_models_own_options():
    model = copying.transformer(experiment.small(ADDITIVE, 32), experiment.SYMBOLS)
    model.build()
    sublayers = [
        model.encoder.layers[0].self_attention,
        model.decoder.layers[0].self_attention,
        model.decoder.layers[0].encdec_attention,
    ]
    for sublayer in sublayers:
        assert isinstance(sublayer.layer.score, attention_score.Additive)
        assert sublayer.layer.score.query_kernel.shape == (32, 32)  # one head of 32


class Learner:
    """Learns nothing; its loss is the width of its keys."""

    def __init__(self, make):
        self.width = make().hparams.attention_key_channels

    def begin(self, seed):
        self.steps = 0

    def learn(self, batch, rate):
        self.steps += 1

    def evaluate(self, batch):
        assert self.steps == experiment.STEPS
        return {"loss": float(self.width), "accuracy": 0.5}


def test_every_score_is_trained_at_every_width_with_every_seed(monkeypatch):
    monkeypatch.setattr(copying, "Learner", Learner)
    monkeypatch.setattr(experiment, "STEPS", 3)
    rows = experiment.run().rows
    assert len({row[:3] for row in rows}) == len(rows) == 9 * experiment.SEEDS
    assert all(row.loss == row.width for row in rows)


def test_sentences_follow_the_numbers():
    first, second = experiment.sentences(rows_of())
    assert first == (
        "As section 3.2.1 says: after 300 steps with keys of width 4, 32, 256 the loss is 0.60 "
        "(0.55 to 0.65) at 4, 0.35 (0.30 to 0.40) at 32, 0.45 (0.40 to 0.50) at 256 with additive "
        "attention and 0.55 (0.50 to 0.60) at 4, 0.45 (0.40 to 0.50) at 32, 1.55 (1.50 to 1.60) at "
        "256 with dot products that are not scaled (mean, least and greatest of 2 seeds), so that "
        "additive attention is alike at 4, alike at 32, better at 256."
    )
    assert second == (
        "Scaled dot products have 0.55 (0.50 to 0.60) at 4, 0.35 (0.30 to 0.40) at 32, 0.25 (0.20 "
        "to 0.30) at 256: against additive attention they are alike at 4, alike at 32, better at "
        "256 (alike: the ranges of the seeds overlap)."
    )


@pytest.mark.parametrize(
    "other",
    [
        {"DOT": (0.5, 0.4, 0.45)},  # as good with wide keys
        {"DOT": (0.9, 0.9, 1.5)},  # worse with narrow ones too
        {"ADDITIVE": (0.55, 0.3, 1.9)},
    ],
)
def test_other_numbers_are_no_support(other):
    first, _ = experiment.sentences(rows_of(**other))
    assert first.startswith("The numbers do not support section 3.2.1: after ")


def test_the_picture_has_loss_and_accuracy_of_each_score():
    left, right = experiment.picture(rows_of()).axes
    assert left.get_legend_handles_labels()[1] == [DOT, SCALED, ADDITIVE]
    assert list(right.lines[0].get_ydata()) == pytest.approx([0.75, 0.8, 0.25])
    assert list(left.lines[1].get_xdata()) == [*experiment.WIDTHS]
