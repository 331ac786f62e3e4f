"""Translates lines of standard input with the ONNX model beside this file, by T2T's beam search.

    python translate.py < source.txt > translation.txt

It needs numpy and onnxruntime; sentencepiece, too, if the vocabulary is SentencePiece's.
"""

import json
import pathlib
import re
import sys

import numpy as np
import onnxruntime

EOS = 1


class Subwords:
    """T2T's subwords: the longest match from left to right."""

    def __init__(self, path):
        lines = path.read_bytes().decode().split("\n")
        self.pieces = [re.sub(r"^(['\"])(.*)\1$", r"\2", line.rstrip()) for line in lines]
        self.ids = {piece: i for i, piece in enumerate(self.pieces) if piece}
        self.alphabet, self.longest = set("".join(self.pieces)), max(map(len, self.ids))

    def encode(self, text):
        runs, ids = re.findall(r"[^\W_]+|[\W_]+", text), []
        for i, word in enumerate(runs):
            if word == " " and 0 < i < len(runs) - 1:
                continue  # decoding puts it between two words
            word = word.replace("\\", "\\\\").replace("_", "\\u")
            word = "".join(c if c in self.alphabet else f"\\{ord(c)};" for c in word) + "_"
            while word:
                end = next((n for n in range(self.longest, 0, -1) if word[:n] in self.ids), 0)
                if end:
                    ids.append(self.ids[word[:end]])
                    word = word[end:]
                else:  # a character that is no piece by itself
                    word = f"\\{ord(word[0])};{word[1:]}"
        return ids

    def decode(self, ids):
        words = re.findall("[^_]+", "".join(self.pieces[i] for i in ids))
        words = [re.sub(r"\\(u|\\|[0-9]+;)", self.meaning, word) for word in words]
        text, after_word = "", False
        for word in words:
            text += " " * (after_word and word[0].isalnum()) + word
            after_word = word[0].isalnum()
        return text

    def meaning(self, escape):
        if escape[1] in "u\\":
            return "_" if escape[1] == "u" else "\\"
        number = int(escape[1][:-1])
        return chr(number) if number < 0xD800 or 0xE000 <= number < 0x110000 else "\u3013"


class Pieces:
    """SentencePiece's: those that are no control signs stand behind the ids 0 and 1."""

    def __init__(self, path):
        import sentencepiece

        self.model = sentencepiece.SentencePieceProcessor(model_file=str(path))
        own = [i for i in range(self.model.get_piece_size()) if not self.model.is_control(i)]
        self.own, self.ids = own, {piece: i for i, piece in enumerate(own, start=2)}

    def encode(self, text):
        return [self.ids[i] for i in self.model.encode(text)]

    def decode(self, ids):
        return self.model.decode([self.own[i - 2] for i in ids if i > EOS]).rstrip(" ")


class Translator:
    """The model of a folder."""

    def __init__(self, folder):
        self.settings = json.loads((folder / "search.json").read_text(encoding="utf-8"))
        self.beams, self.alpha = self.settings["beam_size"], self.settings["alpha"]
        files = [folder / name for name in self.settings["vocabularies"]]
        sides = [Pieces(f) if f.suffix == ".model" else Subwords(f) for f in files]
        self.source, self.target = sides[0], sides[-1]
        names = ("encoder_model.onnx", "decoder_model_merged.onnx")
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # wait at rest
        self.encoder, self.decoder = (
            onnxruntime.InferenceSession(folder / name, options) for name in names
        )
        self.past = [each for each in self.decoder.get_inputs() if "past" in each.name]

    def translate(self, line):
        """Returns (the best translation, its score)."""
        ids = self.source.encode(line.strip())[: self.settings["max_input_size"] - 1]
        best, score = self.search([*ids, EOS]) if ids else ([], 0.0)
        return re.sub(r"[\r\n]+", " ", self.target.decode(best)), score

    def search(self, source):
        """Returns (target ids without the end, score); one beam is greedy search."""
        beams, most = self.beams, self.settings["max_length"]
        limit = min(len(source) + self.settings["extra_length"], most)
        ids = np.array([source] * beams)
        mask = np.ones_like(ids)
        (memory,) = self.encoder.run(None, {"input_ids": ids, "attention_mask": mask})
        feed = {"encoder_hidden_states": memory, "encoder_attention_mask": mask}
        for each in self.past:
            feed[each.name] = np.zeros((beams, each.shape[1], 0, each.shape[3]), "float32")
        last, alive, finished = np.zeros(beams, "int64"), [[]] * beams, []
        log_probs = np.array([0.0] + [-1e9] * (beams - 1), "float32")
        for step in range(limit):
            feed |= {"input_ids": last[:, None], "use_cache_branch": np.array([step > 0])}
            logits, *present = self.decoder.run(None, feed)
            logits = logits[:, -1] - logits[:, -1].max(axis=1, keepdims=True)
            logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
            scores = ((logits + log_probs[:, None]) / self.penalty(step + 1)).ravel()
            best = np.argsort(-scores, kind="stable")[: 2 * beams if beams > 1 else 1]
            size = logits.shape[1]
            finished += [(scores[i], alive[i // size]) for i in best[best % size == EOS]]
            finished = sorted(finished, key=lambda pair: -pair[0])[:beams]
            if beams == 1 and finished:
                break
            going = best[best % size != EOS][:beams]
            parents, last = going // size, going % size
            log_probs = scores[going] * self.penalty(step + 1)
            alive = [[*alive[i // size], int(i % size)] for i in going]
            for each, value in zip(self.past, present, strict=True):
                feed[each.name] = value if ".encoder." in each.name else value[parents]
            if finished and finished[0][0] > log_probs[0] / self.penalty(limit):
                break  # none that goes on can become better than the best that has ended
        score, best = finished[0] if finished else (log_probs[0], alive[0])
        return best, float(score)

    def penalty(self, length):
        return np.float32(((5 + length) / 6) ** self.alpha if self.beams > 1 else 1)


if __name__ == "__main__":
    translator = Translator(pathlib.Path(__file__).parent)
    sys.stdin.reconfigure(encoding="utf-8-sig", newline="\n")  # a line ends nowhere else
    for text in sys.stdin:
        print(translator.translate(text)[0], flush=True)
