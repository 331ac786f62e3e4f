"""The page that computes: it holds the model's weights, and translates as t2t-decoder does."""

import base64
import string

import numpy as np
import pytest

from t2t_repro.decoding.engine import ModelEngine
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.decoding.translate import Translator
from t2t_repro.interop import tensor2tensor
from t2t_repro.text import SubwordTextEncoder
from t2t_repro.text.encoders import EOS_ID
from t2t_repro.text.escaping import ESCAPE_CHARACTERS
from t2t_repro.views import explainer
from tests.views.pages import content, policy_of

# 37 subtokens, as many as the golden models have.
PIECES = ["<pad>_", "<EOS>_", "ab_", "c_", "abc", *sorted(ESCAPE_CHARACTERS)]
PIECES += [c for c in string.ascii_lowercase if c != "u"][: 37 - len(PIECES)]
TEXTS = ["abc ab", "c d_e", "a, b 7", "abcab abc € c\\", "", "ppp"]


@pytest.fixture(scope="module")
def encoder():
    return SubwordTextEncoder.from_subtokens(PIECES)


def page(model, encoder, text="abc"):
    encoders = {"inputs": encoder, "targets": encoder}
    return explainer.page(model, encoders, "A & B <i>", text, DecodeHParams())


@pytest.mark.parametrize("case", ["base_v1", "base_v2"])
def test_it_holds_the_weights(golden_case, encoder, case):
    model = golden_case(case).model()
    stored = content(page(model, encoder, "</script>"))
    scales = np.frombuffer(base64.b64decode(stored["scales"]), "<f4")
    words = np.frombuffer(base64.b64decode(stored["weights"]), "<i2")
    found, row, at = {}, 0, 0
    for name, rows, depth in stored["arrays"]:
        part = words[at : at + rows * depth].reshape(rows, depth)
        found[name] = part * scales[row : row + rows, None]
        row, at = row + rows, at + rows * depth
    assert (row, at) == (len(scales), len(words))
    known = tensor2tensor.export_variables(model)
    for name, array in known.items():
        if name.startswith("transformer/body/") and "target_space" not in name:
            near = found[name.removeprefix("transformer/body/")].reshape(array.shape)
            np.testing.assert_allclose(near, array, atol=np.abs(array).max() / explainer.STEPS)
    assert stored["parameters"] == model.count_params() and stored["subwords"] == PIECES


def test_nothing_else_may_run_or_load(golden_case, encoder):
    made = page(golden_case("base_v1").model(), encoder, "</script>")
    assert policy_of(made).startswith("default-src 'none'; script-src 'sha256-")


@pytest.mark.browser
@pytest.mark.parametrize("case", ["base_v1", "base_v2"])
def test_it_translates_as_the_decoder_does(browser, golden_case, encoder, case, tmp_path):
    model = golden_case(case).model()
    encoders = {"inputs": encoder, "targets": encoder}
    (tmp_path / "page.html").write_text(page(model, encoder), encoding="utf-8")
    browser.open("about:blank")
    browser.requests(), browser.complaints()
    browser.open((tmp_path / "page.html").as_uri())
    lines = [text for text in TEXTS if text]
    ours = browser.run("return Promise.all(arguments[0].map((t) => explainer.translate(t)))", lines)
    wanted = Translator(ModelEngine(model), encoders).translate_lines(lines)
    assert ours == [best.text for best, *_ in wanted]
    targets = [7, 3, 20, EOS_ID]
    logits = browser.run("return explainer.logits(arguments[0], arguments[1])", lines[1], targets)
    batch = {"inputs": [[*encoder.encode(lines[1]), EOS_ID]], "targets": [targets]}
    batch = {name: np.array(ids, "int32") for name, ids in batch.items()}
    np.testing.assert_allclose(logits, np.asarray(model(batch))[0], atol=1e-3)
    for view in ("layer", "writing", "without"):
        browser.run("document.getElementById(arguments[0]).open = true", view)
    browser.click("[data-off=positions]")
    assert browser.run("return document.getElementById('compared').textContent").count("log P")
    assert browser.complaints() == [] and browser.requests()[1:] == []
