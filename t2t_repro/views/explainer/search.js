// Beam search as tensor2tensor's, for one sentence (t2t_repro/decoding/beam_search.py).

const EOS = 1, MINUS = -1e7;

const penalty = (length, alpha) => ((5 + length) / 6) ** alpha;

function largest(scores, count) {  // the places of the `count` largest, the first of equals first
  const found = [];
  for (let i = 0; i < scores.length; i++) {
    if (found.length === count && !(scores[i] > scores[found[count - 1]])) continue;
    let at = found.length;
    while (at > 0 && scores[i] > scores[found[at - 1]]) at--;
    found.splice(at, 0, i);
    if (found.length > count) found.pop();
  }
  return found;
}

// Yields once a step, so that a page can draw; returns {best, hypotheses, steps}.
// `forced` are ids that the translation begins with.
function* search(model, ids, { beam = 4, alpha = 0.6, extra = 100, forced = [] } = {}) {
  const encoded = model.encode(ids), limit = ids.length + extra, steps = [];
  let alive = [{ ids: [], logProb: 0, caches: model.begin(), node: null }], finished = [];
  const greedy = beam === 1;
  for (let step = 0; step < limit; step++) {
    const best = Math.max(MINUS, ...finished.map(({ score }) => score));
    if (greedy ? finished.length : best > alive[0].logProb / penalty(limit, alpha)) break;
    const candidates = [], over = greedy ? 1 : penalty(step + 1, alpha);
    const living = alive.map((each) => model.step(each.ids.at(-1) ?? 0, step, each.caches, encoded));
    living.forEach((made, parent) => {
      const normalizer = logSumExp(made.logits);
      const only = forced[step];
      const places = only === undefined ? largest(made.logits, 2 * beam) : [only];
      for (const id of places) {
        const own = made.logits[id] - normalizer, logProb = own + alive[parent].logProb;
        candidates.push({ id, parent, own, logProb, score: logProb / over });
      }
    });
    const order = largest(candidates.map(({ score }) => score), 2 * beam);
    const chosen = order.map((place) => candidates[place]);
    steps.push({ position: step, living: alive.map(({ ids }) => ids), chosen, made: living });
    const grown = chosen.map((each) => ({
      ...each, ids: [...alive[each.parent].ids, each.id], caches: living[each.parent].caches, ended: each.id === EOS,
    }));
    finished = [...finished, ...grown.filter(({ ended }) => ended)];
    finished = largest(finished.map(({ score }) => score), beam).map((place) => finished[place]);
    alive = grown.filter(({ ended }) => !ended).slice(0, beam);
    chosen.forEach((each, i) => { each.ended = grown[i].ended; each.kept = alive.includes(grown[i]); });
    yield { step, alive, finished };
    if (!alive.length) break;
  }
  const hypotheses = finished.length ? finished : alive;
  return { encoded, steps, hypotheses, best: hypotheses[0] };
}

function searched(model, ids, settings) {
  const running = search(model, ids, settings);
  for (;;) { const { done, value } = running.next(); if (done) return value; }
}
