"""Packaging. The catalogues hparams/ and problems/ are installed inside the package.

Both names belong to other projects on the public index, and a wheel with a top-level `hparams`
would overwrite a stranger's files. `t2t_repro/registry.py` finds them beside the package (a
checkout) or inside it (a wheel).
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent

PROGRAMS = {
    "t2t-trainer": "trainer",
    "t2t-datagen": "datagen",
    "t2t-decoder": "decoder",
    "t2t-eval": "evaluator",
    "t2t-avg-all": "avg_all",
    "t2t-own-text": "own_text",
    "t2t-distill": "distill",
    "t2t-bleu": "bleu",
    "t2t-translate-all": "translate_all",
    "t2t-paper": "paper",
    "t2t-checkpoint": "checkpoint",
    "t2t-exporter": "exporter",
    "t2t-visualize": "visualize",
    "t2t-compare": "compare",
    "t2t-show": "show",
    "t2t-server": "server",
}

CTRANSLATE2_REQUIREMENTS = ["ctranslate2>=4.5,<5"]  # t2t-exporter --format=ctranslate2
ONNX_REQUIREMENTS = ["onnx>=1.19,<2", "onnxruntime>=1.22,<2"]  # --format=onnx, transformers
SENTENCEPIECE_REQUIREMENTS = ["sentencepiece>=0.2,<0.3"]  # models, byte pairs
CUDA_REQUIREMENTS = ["tensorflow[and-cuda]>=2.21,<2.22"]  # NVIDIA's libraries, for a GPU
BEAM_REQUIREMENTS = ["apache-beam>=2.70,<3"]  # t2t-datagen --runner

SERVER_REQUIREMENTS = [  # t2t-server
    "fastapi>=0.120,<1",
    "uvicorn>=0.40,<1",
    "prometheus-client>=0.20,<1",
    "sentencex>=1.0,<2",  # splits a text into sentences
]

DOCS_REQUIREMENTS = ["pdoc>=16,<17"]  # make docs

NOTEBOOK_REQUIREMENTS = [  # make notebooks
    *SERVER_REQUIREMENTS,
    "jupytext>=1.16,<2",
    "nbconvert>=7.16,<8",
    "ipykernel>=6.29,<8",
]

TEST_REQUIREMENTS = [
    *BEAM_REQUIREMENTS,
    *CTRANSLATE2_REQUIREMENTS,
    *DOCS_REQUIREMENTS,
    *ONNX_REQUIREMENTS,
    *SENTENCEPIECE_REQUIREMENTS,
    *SERVER_REQUIREMENTS,
    "tokenizers>=0.21,<0.24",  # reads the tokenizer.json of an export
    "nltk>=3.9,<4",  # benchmarks/pcfg_baseline.py
    "httpx2>=2,<3",  # what starlette's test client sends by
    "libretranslatepy>=2.1,<3",  # a client of LibreTranslate's protocol
    "pytest>=8,<10",
    "pytest-xdist>=3.6,<4",
    "hypothesis>=6.100,<7",
    "jax>=0.10,<0.11",  # the second backend
    "ruff>=0.17,<0.18",
    "mypy>=2.4,<3",
]


def version() -> str:
    text = (HERE / "t2t_repro" / "__init__.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)[1]


def requirements() -> list[str]:
    lines = (HERE / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


setup(
    name="t2t_repro",
    version=version(),
    description="tensor2tensor's Transformer, rebuilt on TensorFlow 2 and Keras 3",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11,<3.14",
    packages=find_packages(include=["t2t_repro", "t2t_repro.*"])
    + ["t2t_repro.hparams", "t2t_repro.problems"],
    package_dir={"t2t_repro.hparams": "hparams", "t2t_repro.problems": "problems"},
    package_data={"": ["*.html", "*.md", "*.mjs", "*.tsv"], "t2t_repro.views": ["explainer/*"]},
    install_requires=requirements(),
    extras_require={
        "beam": BEAM_REQUIREMENTS,
        "ctranslate2": CTRANSLATE2_REQUIREMENTS,
        "cuda": CUDA_REQUIREMENTS,
        "docs": DOCS_REQUIREMENTS,
        "notebooks": NOTEBOOK_REQUIREMENTS,
        "onnx": ONNX_REQUIREMENTS,
        "sentencepiece": SENTENCEPIECE_REQUIREMENTS,
        "server": SERVER_REQUIREMENTS,
        "test": TEST_REQUIREMENTS,
    },
    entry_points={
        "console_scripts": [
            f"{name}=t2t_repro.bin.{module}:console" for name, module in PROGRAMS.items()
        ]
    },
)
