"""Student beside teacher: what decodes on each side, and how."""

import types

import pytest

from t2t_repro.decoding import decode, dev_bleu, program
from t2t_repro.distilling import comparison
from t2t_repro.distilling.request import DistillRequest
from t2t_repro.process import Ended
from t2t_repro.training import devices

REFERENCES = [f"the cat number {i} sat on the mat" for i in range(9)]


class Run:
    """A trained run that needs no files."""

    def __init__(self, path):
        self.path, self.problem, self.asked = path, "a problem", None

    def on(self, where):
        self.where = where
        return self

    def decode_settings(self, text):
        self.asked = text
        return types.SimpleNamespace(beam_size=4 if "teach" in self.path else 1, alpha=0.6)

    def ensemble(self, others):
        return "+".join(run.path for run in (self, *others))


@pytest.fixture
def decoded(monkeypatch):
    """Decodes in this process, and without models; what was decoded, as which text says."""
    seen = []

    class Sample:
        references, described = REFERENCES, "all 9 dev sentences"

        def __init__(self, *what, **more):
            pass

        def written(self, engine, settings):
            seen.append((engine, settings.beam_size))
            return REFERENCES if "+" in engine else [r.replace("sat", "lay") for r in REFERENCES]

    made = {}
    monkeypatch.setattr(comparison, "trained_run", lambda path: made.setdefault(path, Run(path)))
    monkeypatch.setattr(decode, "ModelEngine", lambda model, searches: model)
    monkeypatch.setattr(dev_bleu, "DevSample", Sample)
    monkeypatch.setattr(program, "share_cores", lambda rows: 1)
    alone = lambda work, *what: Ended(0, "", work(*what))  # noqa: E731
    monkeypatch.setattr(comparison.process, "run", alone)
    return seen, made


def test_the_teacher_decodes_as_it_taught(decoded):
    seen, made = decoded
    request = DistillRequest(
        teacher="teach", output_dir="out", ensemble="b,c", decode_hparams="alpha=0.7"
    )
    found = comparison.compare(request, "out/model", "out/data")
    assert set(seen) == {("teach+b+c", 4), ("out/model", 1)}
    assert made["teach"].where == made["out/model"].where == devices.ONE
    assert (made["teach"].asked, made["out/model"].asked) == ("alpha=0.7", "")
    assert found.teacher.search == "beam_size=4,alpha=0.6, 3 runs together"
    assert found.student.search == "beam_size=1,alpha=0.6"
    assert found.change < 0 and (found.teacher.run, found.student.run) == ("teach", "out/model")
