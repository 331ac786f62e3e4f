"""A second beam search: slow, in plain Python, one hypothesis at a time, plainly right."""

import numpy as np

INF = 1e7
EOS = 1


def log_softmax(logits):
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


class Sentence:
    """The search for one sentence; `logits_of(prefix)` gives the logits (V,) of the next token."""

    def __init__(self, logits_of, beams, alpha):
        self.logits_of, self.beams, self.alpha = logits_of, beams, alpha
        self.alive = [(0.0, [])] + [(-INF, [])] * (beams - 1)
        self.finished = [(-INF, [], False)] * beams

    def penalty(self, length):
        return ((5 + length) / 6) ** self.alpha

    def step(self):
        candidates = []
        for log_prob, prefix in self.alive:
            for token, more in enumerate(log_softmax(self.logits_of(prefix))):
                total = log_prob + more
                candidates.append((total / self.penalty(len(prefix) + 1), total, prefix + [token]))
        best = sorted(candidates, key=lambda c: -c[0])[: 2 * self.beams]
        ended = [c[2][-1] == EOS for c in best]
        alive = sorted(zip(best, ended, strict=True), key=lambda c: -(c[0][0] - INF * c[1]))
        self.alive = [(c[1], c[2]) for c, _ in alive[: self.beams]]
        new = [(c[0] - INF * (not e), c[2], e) for c, e in zip(best, ended, strict=True)]
        self.finished = sorted(self.finished + new, key=lambda f: -f[0])[: self.beams]

    def floor(self, stop_early):
        return (max if stop_early else min)(f[0] for f in self.finished)

    def ceiling(self, limit):
        return self.alive[0][0] / self.penalty(limit)

    def result(self):
        if any(flag for _, _, flag in self.finished):
            return [(ids, score) for score, ids, _ in self.finished]
        return [(ids, score) for score, ids in self.alive]


def beam_search(logits_ofs, beams, limit, alpha, stop_early):
    """tensor2tensor's: one limit, all sentences stop together. Returns a list of [(ids, score)]."""
    sentences = [Sentence(f, beams, alpha) for f in logits_ofs]
    for _ in range(limit):
        floors = [s.floor(stop_early) for s in sentences]
        if not stop_early:
            floors = [min(floors)] * len(sentences)
        if all(f > s.ceiling(limit) for f, s in zip(floors, sentences, strict=True)):
            break
        for s in sentences:
            s.step()
    return [s.result() for s in sentences]


def greedy(logits_of, limit):
    """(ids, sum of log-probs) of one sentence."""
    ids, score = [], 0.0
    while len(ids) < limit and (not ids or ids[-1] != EOS):
        log_probs = log_softmax(logits_of(ids))
        ids.append(int(log_probs.argmax()))
        score += log_probs[ids[-1]]
    return ids, score
