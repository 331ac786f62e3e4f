"""What an evaluation leaves behind."""

import gc
import weakref

from t2t_repro.training.evaluation import Evaluator


def test_a_model_that_was_evaluated_goes_when_nobody_needs_it(make_model, make_batches):
    model = make_model()
    assert Evaluator(model).evaluate(make_batches().take(2))["loss"] > 0
    known = weakref.ref(model)
    del model
    gc.collect()
    assert known() is None
