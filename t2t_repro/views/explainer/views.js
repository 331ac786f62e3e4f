// The four views. All of them draw from `state`, and `draw` draws what changed.

const data = JSON.parse(document.getElementById("data").textContent);
const model = new Transformer(data), subwords = new Subwords(data.subwords);
const at = (id) => document.getElementById(id);
const KINDS = {
  encoder: "Encoder self-attention", "encoder-decoder": "Encoder-decoder attention", decoder: "Decoder self-attention",
};
const ABOUT = {
  encoder: "Every word of the sentence looks at every word of the sentence.",
  "encoder-decoder": "Cross attention: queries come from the translation being written, keys and values from the encoder's last layer. A row is named after the word that its position is about to write.",
  decoder: "Every position looks at the words that are written so far, never at later words. A row is named after the word that its position is about to write, a column after a word that was read.",
};
const state = { text: "", beam: 4, alpha: 0.6, forced: [], kind: "encoder-decoder", layer: model.decoder_layers - 1,
  head: 0, query: 0, key: 0, word: null, step: 0, run: null, whole: null };

function make(tag, parent, properties = {}, attributes = {}) {
  const element = document.createElement(tag);
  Object.assign(element, properties);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  parent?.append(element);
  return element;
}

function draw_svg(parent, width, height, label) {
  const space = "http://www.w3.org/2000/svg", svg = document.createElementNS(space, "svg");
  Object.entries({ width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label })
    .forEach(([name, value]) => svg.setAttribute(name, value));
  parent.replaceChildren(svg);
  return (tag, attributes, text = "") => {
    const element = document.createElementNS(space, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.textContent = text;
    svg.append(element);
    return element;
  };
}

const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)}%`;
const shade = (share) => `color-mix(in srgb, var(--main) ${Math.round(100 * share)}%, transparent)`;
const words = (ids) => ids.map((id) => subwords.show(id));
const written = (ids) => subwords.decode(ids.filter((id) => id !== EOS));

// A row of numbers as a strip of colours: blue above 0, orange below.
function strip(parent, values, most, label) {
  const canvas = make("canvas", parent, { width: values.length, height: 1, className: "strip" },
    { role: "img", "aria-label": label });
  paint(canvas, [values], most);
}

function paint(canvas, rows, most) {
  canvas.width = rows[0].length;
  canvas.height = rows.length;
  const context = canvas.getContext("2d"), image = context.createImageData(canvas.width, canvas.height);
  rows.forEach((row, y) => row.forEach((value, x) => {
    const share = Math.min(1, Math.abs(value) / most), color = value > 0 ? [11, 92, 173] : [214, 110, 0];
    image.data.set([...color, 255 * share], 4 * (y * canvas.width + x));
  }));
  context.putImageData(image, 0, 0);
}

// --- what is computed

function compute(text, { beam = state.beam, alpha = state.alpha, forced = [] } = {}) {
  const ids = [...subwords.encode(text.trim()), EOS];
  return { ids, ...searched(model, ids, { beam, alpha, extra: data.extra_length, forced }) };
}

function translate(text = state.text) {
  const started = performance.now();
  state.text = text;
  if (!text.trim()) { at("translation").textContent = "Type a sentence."; at("took").textContent = ""; return; }
  const run = compute(text, { forced: state.forced });
  run.target = run.best.ids;
  run.trace = model.read(run.target, run.encoded);
  state.run = run;
  state.step = Math.min(state.step, run.steps.length - 1);
  at("translation").textContent = written(run.target);
  at("took").textContent = `${Math.round(performance.now() - started)} ms`;
  const asked = JSON.stringify([text, state.beam, state.alpha, state.forced]);
  if (!model.off.size) state.whole = run;
  else if (state.whole?.asked !== asked) {  // what the whole model makes of this sentence
    const off = model.off;
    model.off = new Set();
    state.whole = compute(text, { forced: state.forced });
    state.whole.trace = model.read(state.whole.target = state.whole.best.ids, state.whole.encoded);
    model.off = off;
  }
  state.whole.asked = asked;
  const flags = new URLSearchParams({ text, beam: state.beam, alpha: state.alpha });
  history.replaceState(null, "", `#${flags.toString().replaceAll("+", "%20")}`);
  choose({});
}

function choose(changes) {
  Object.assign(state, changes);
  if (!state.run) return;
  const { queries, keys } = map();
  state.query = Math.min(state.query, queries.length - 1);
  state.key = Math.min(state.key, keys(state.query).length - 1);
  drawWords(); drawLayer(); drawWriting(); drawWithout();
}

// Labels and weights of the chosen kind of attention.
function map(kind = state.kind, run = state.run) {
  const { ids, target, encoded, trace } = run, source = words(ids), answer = words(target);
  if (kind === "encoder") return {
    queries: source, keys: () => source,
    at: (layer, query) => encoded.layers[layer].self_attention.positions[query],
    key: (layer, query, key) => encoded.layers[layer].self_attention.keys[key],
  };
  if (kind === "encoder-decoder") return {
    queries: answer, keys: () => source,
    at: (layer, query) => trace[query].layers[layer].encdec_attention,
    key: (layer, query, key) => encoded.sides[layer].keys[key],
  };
  const read = ["<start>", ...answer.slice(0, -1)];
  return {
    queries: answer, keys: (query) => model.off.has("mask") ? read : read.slice(0, query + 1), all: read,
    at: (layer, query) => trace[query].layers[layer].self_attention,
    key: (layer, query, key) => trace[query].caches[layer].keys[key],
  };
}

// --- 1. words become vectors

function drawWords() {
  const { ids } = state.run, box = at("source");
  const pieces = subwords.tokens(state.text.trim()).flatMap((token) => subwords.match(token).map((each) => ({ ...each, token })));
  box.replaceChildren();
  ids.forEach((id, i) => {
    const chip = make("button", box, { type: "button", className: "chip", textContent: subwords.show(id) },
      { "aria-pressed": state.word === i });
    make("small", chip, { textContent: id });
    chip.onclick = () => { at("layer").open = true; choose({ word: i, kind: "encoder", layer: 0, query: i, key: i }); at("source").children[i].focus(); };
  });
  const word = state.word ?? 0, piece = pieces[word], cut = at("cut");
  cut.replaceChildren();
  if (piece) {
    const line = make("p", cut, { textContent: `“${piece.token}” is spelled ${subwords.escape(piece.token)}. ` });
    if (piece.tried.length) {
      line.append("Not in the vocabulary: ");
      piece.tried.forEach((each, i) => { if (i) line.append(", "); make("s", line, { textContent: each }); });
      line.append(". ");
    }
    line.append("The longest piece that fits: ");
    make("b", line, { textContent: piece.piece });
    line.append(`, id ${piece.id}.`);
  } else if (ids[word] === EOS) make("p", cut, { textContent: "</s>, id 1, ends every sentence." });
  const vectors = at("vectors"), embedding = model.embedding(ids[word], "inputs"), wave = model.signal(word);
  vectors.replaceChildren();
  const most = Math.max(1, ...embedding.map(Math.abs));
  const rows = [[`E[${ids[word]}] · √D`, embedding], [`PE(${word})`, wave]];
  if (model.values.target_space) rows.push(["target space (tensor2tensor's own)", model.values.target_space]);
  rows.push(["the sum, which the encoder reads", state.run.encoded.start[word]]);
  for (const [label, values] of rows) {
    const row = make("div", vectors, { className: "row" });
    make("span", row, { textContent: label });
    strip(row, values, most, `${label}: ${values.length} numbers`);
  }
  paint(at("waves"), Array.from({ length: 48 }, (_, position) => model.signal(position)), 1);
}

// --- 2. a layer

function fill(select, options, chosen) {
  select.replaceChildren(...options.map(([value, text]) => make("option", null, { value, textContent: text })));
  select.value = chosen;
}

const scopes = () => state.kind === "encoder"
  ? ["encoder", ["self_attention", "ffn"]] : ["decoder", ["self_attention", "encdec_attention", "ffn"]];
const NAMES = { self_attention: "self-attention", encdec_attention: "encoder-decoder attention", ffn: "feed-forward" };
const STEPS = { n: ["norm", ""], d: ["dropout (only in training)", ""], a: ["+ x", "add"] };

function drawLayer() {
  const { queries, keys, at: found, all, key: keyOf } = map(), head = state.head;
  const layers = state.kind === "encoder" ? model.encoder_layers : model.decoder_layers;
  state.layer = Math.min(state.layer, layers - 1);
  fill(at("kind"), Object.entries(KINDS), state.kind);
  fill(at("number"), Array.from({ length: layers }, (_, i) => [i, `${i + 1} of ${layers}`]), state.layer);
  fill(at("head"), Array.from({ length: model.num_heads }, (_, i) => [i, `${i + 1} of ${model.num_heads}`]), head);
  at("about").textContent = ABOUT[state.kind];
  drawOrder();
  const table = at("matrix"), columns = all ?? keys(0);
  table.replaceChildren();
  const top = make("tr", make("thead", table));
  make("th", top);
  columns.forEach((word) => make("th", top, { textContent: word }, { scope: "col" }));
  const body = make("tbody", table);
  queries.forEach((word, query) => {
    const row = make("tr", body), { weights } = found(state.layer, query).heads[head];
    make("th", row, { textContent: state.kind === "encoder" ? word : `writes ${word}` }, { scope: "row" });
    columns.forEach((column, key) => {
      const chosen = query === state.query && key === state.key, cell = make("td", row, { className: chosen ? "chosen" : "" });
      if (key >= weights.length) { cell.title = "masked: still to come"; return; }
      const button = make("button", cell, { textContent: Math.round(100 * weights[key]), type: "button", tabIndex: chosen ? 0 : -1,
        title: `${word} looks at ${column}: ${percent(weights[key])}` }, { "data-at": `${query},${key}` });
      button.style.background = shade(weights[key]);
      button.onclick = () => { choose({ query, key }); table.querySelector(`[data-at="${query},${key}"]`)?.focus(); };
    });
  });
  const { heads, query } = found(state.layer, state.query), chosen = heads[head], box = at("cell");
  const key = keyOf(state.layer, state.query, state.key), start = head * model.width;
  box.replaceChildren();
  const asks = queries[state.query], answers = keys(state.query)[state.key];
  const who = state.kind === "encoder" ? `“${asks}”` : `the position that writes “${asks}”`;
  make("p", box, { textContent: `Query of ${who} and key of “${answers}”, head ${head + 1}, ${model.width} numbers each:` });
  if (key) {
    const parts = [["query", query], ["key", key]].map(([name, values]) => [name, values.slice(start, start + model.width)]);
    const most = Math.max(...parts.flatMap(([, values]) => [...values].map(Math.abs)));
    for (const [name, values] of parts) {
      const row = make("div", box, { className: "row" });
      make("span", row, { textContent: name });
      strip(row, values, most, `${name}: ${model.width} numbers`);
    }
  }
  const product = chosen.products[state.key], weight = chosen.weights[state.key];
  make("p", box, { textContent: `q · k = ${product.toFixed(2)}; scaled by ${chosen.scale === 1 ? "1" : `1/√${model.width}`}: `
    + `${(product * chosen.scale).toFixed(2)}; softmax over ${chosen.weights.length} words: ${percent(weight)}.` });
  drawNorms();
}

function drawOrder() {
  const [stack, sublayers] = scopes(), box = at("order");
  const letters = (sequence) => sequence === "none" ? [] : [...sequence];
  box.replaceChildren();
  const post = letters(model.layer_postprocess_sequence).includes("n");
  make("p", box, { className: "dim", textContent: `${post ? "Post-norm, as in the paper's figure 1" : "Pre-norm, as tensor2tensor's later models"}: `
    + `layer_preprocess_sequence “${model.layer_preprocess_sequence}”, layer_postprocess_sequence “${model.layer_postprocess_sequence}”.` });
  for (const name of sublayers) {
    const line = make("div", box, { className: "flow" }), boxes = [["x", ""]];
    for (const step of letters(model.layer_preprocess_sequence)) boxes.push(STEPS[step]);
    boxes.push([(stack === "decoder" && name === "self_attention" ? "masked " : "") + NAMES[name], "main"]);
    for (const step of letters(model.layer_postprocess_sequence)) boxes.push(STEPS[step]);
    boxes.forEach(([text, kind], i) => { if (i) line.append("→"); make("span", line, { textContent: text, className: `box ${kind}` }); });
  }
}

function drawNorms() {
  const [stack, sublayers] = scopes(), { encoded, trace } = state.run, query = state.query, points = [];
  const start = stack === "encoder" ? encoded.start[query] : trace[query].start;
  points.push(["in", norm(start)]);
  const layers = stack === "encoder" ? model.encoder_layers : model.decoder_layers;
  for (let layer = 0; layer < layers; layer++) for (const name of sublayers) {
    const made = stack === "encoder" ? encoded.layers[layer][name].positions[query] : trace[query].layers[layer][name];
    points.push([`${layer + 1} ${NAMES[name].replace("encoder-decoder", "cross")}`, made.norm]);
  }
  const most = Math.max(...points.map(([, value]) => value)), wide = Math.max(360, 60 * points.length) + 90;
  const shape = draw_svg(at("norms"), wide, 190, "Length of the vector after each sublayer");
  const x = (i) => 30 + i * (wide - 150) / (points.length - 1), y = (value) => 110 - 90 * value / most;
  shape("path", { d: points.map(([, value], i) => `${i ? "L" : "M"}${x(i)} ${y(value)}`).join(" "), class: "norm" });
  points.forEach(([label, value], i) => {
    shape("circle", { cx: x(i), cy: y(value), r: 4, class: "node" });
    shape("text", { x: x(i), y: y(value) - 8, "text-anchor": "middle" }, value.toFixed(0));
    shape("text", { x: x(i), y: 128, transform: `rotate(35 ${x(i)} 128)` }, label);
  });
}

// --- 3. the decoder writes

function drawWriting() {
  const { run, step } = state, { steps } = run, made = steps[step];
  Object.assign(at("step"), { max: steps.length - 1, value: step });
  at("step-value").textContent = `${step + 1} of ${steps.length}`;
  at("beams").textContent = at("beam-value").textContent = state.beam;
  at("alpha-value").textContent = state.alpha;
  at("free").hidden = !state.forced.length;
  const sofar = at("so-far");
  sofar.replaceChildren();
  make("p", sofar, { textContent: "The most probable beginning so far: " });
  make("b", sofar.firstChild, { textContent: written(made.living[0]) || "nothing yet" });
  const table = make("table", null, {}, { "aria-label": "Candidates of this step" }), top = make("tr", table);
  ["next", "probability", "after the beginning", "log P", "score (best first)", ""].forEach((text) => make("th", top, { textContent: text }));
  made.chosen.forEach(({ id, parent, own, logProb, score, kept, ended }) => {
    const row = make("tr", table), prefix = made.living[parent];
    const button = make("button", make("td", row), { type: "button", textContent: subwords.show(id), title: "Force this word, and see what follows" });
    button.onclick = () => { state.forced = [...prefix, id].filter((each) => each !== EOS); translate(); };
    const share = make("td", row);
    make("span", share, { className: "bar" }).style.width = `${Math.exp(own) * 120}px`;
    share.append(` ${percent(Math.exp(own))}`);
    make("td", row, { textContent: written(prefix) || "<start>" });
    make("td", row, { textContent: logProb.toFixed(2), className: "number" });
    make("td", row, { textContent: score.toFixed(3), className: "number" });
    make("td", row, { textContent: ended ? "ended" : kept ? "kept" : "dropped" });
  });
  at("candidates").replaceChildren(table);
  drawTree();
  const list = make("table"), heading = make("tr", list);
  ["translation", "subwords", "log P", `lp, α = ${state.alpha}`, "score"].forEach((text) => make("th", heading, { textContent: text }));
  run.hypotheses.forEach(({ ids, logProb }, i) => {
    const row = make("tr", list, { className: i ? "" : "chosen" }), divisor = state.beam > 1 ? penalty(ids.length, state.alpha) : 1;
    make("td", row, { textContent: written(ids) });
    [ids.length, logProb.toFixed(2), divisor.toFixed(2), (logProb / divisor).toFixed(3)].forEach((value) =>
      make("td", row, { textContent: value, className: "number" }));
  });
  at("hypotheses").replaceChildren(list);
  drawRanks();
}

function drawTree() {
  const { steps, target } = state.run, wide = 92, high = 28;
  const rows = Math.max(...steps.map(({ chosen }) => chosen.filter(({ kept, ended }) => kept || ended).length));
  const shape = draw_svg(at("tree"), 60 + wide * steps.length, 30 + high * rows, "The beam as a tree");
  let before = [[10, 20]];  // places of the living beams
  const nodes = [];
  steps.forEach(({ chosen, living, position }) => {
    const shown = chosen.filter(({ kept, ended }) => kept || ended), next = [];
    shown.forEach(({ id, parent, kept, ended, own }, row) => {
      const x = 40 + wide * position, y = 20 + high * row, [px, py] = before[parent] ?? [10, 20];
      const ids = [...living[parent], id], best = ids.every((each, i) => each === target[i]);
      shape("line", { x1: px + 5, y1: py, x2: x - 5, y2: y, class: best ? "best" : "" });
      nodes.push([id, x, y, ended, own, position]);
      if (kept) next.push([x, y]);
    });
    before = next;
  });
  for (const [id, x, y, ended, own, position] of nodes) {
    const dot = ended ? shape("rect", { x: x - 5, y: y - 5, width: 10, height: 10, class: "ended" })
      : shape("circle", { cx: x, cy: y, r: 5, class: "node" });
    dot.onclick = () => choose({ step: position });
    shape("text", { x: x + 7, y: y - 5 }, subwords.show(id).slice(0, 11));
  }
}

function drawRanks() {
  const text = at("reference").value.trim(), box = at("ranks");
  box.replaceChildren();
  if (!text) return;
  const ids = [...subwords.encode(text), EOS];
  model.read(ids, state.run.encoded).forEach(({ logits }, i) => {
    const own = logits[ids[i]], rank = 1 + logits.reduce((count, value) => count + (value > own), 0);
    const chip = make("span", box, { className: "chip box", textContent: subwords.show(ids[i]) });
    chip.style.background = shade(0.5 / rank);
    make("small", chip, { textContent: `rank ${rank}, ${percent(Math.exp(own - logSumExp(logits)))}` });
  });
}

// --- 4. take something away

// What a head does in this sentence, where one habit has at least half of its weight.
function habit(kind, layer, head) {
  const { queries, at: found } = map(kind, state.whole), shares = { "the same word": 0, "the word before": 0, "the next word": 0, "the end mark": 0 };
  const mean = kind === "encoder-decoder" ? aligned() : null;
  let agrees = 0;
  queries.forEach((_, query) => {
    const { weights } = found(layer, query).heads[head], here = kind === "decoder" ? query + 1 : query;
    shares["the same word"] += kind === "encoder" ? weights[here] : 0;
    shares["the word before"] += kind === "decoder" ? weights[here - 1] : kind === "encoder" ? weights[here - 1] ?? 0 : 0;
    shares["the next word"] += kind === "encoder" ? weights[here + 1] ?? 0 : 0;
    shares["the end mark"] += kind === "decoder" ? 0 : weights.at(-1);
    if (mean) agrees += weights[mean[query]];
  });
  if (kind === "decoder") shares["the word just written"] = shares["the word before"], delete shares["the word before"];
  if (mean) shares["the aligned word"] = agrees;
  const [name, share] = Object.entries(shares).sort(([, a], [, b]) => b - a)[0];
  return share / queries.length >= 0.5 ? name : "";
}

function aligned() {  // for each written word the source word that all heads look at most, taken together
  const { trace, ids } = state.whole;
  return trace.map(({ layers }) => {
    const sums = new Float32Array(ids.length - 1 || 1);
    for (const { encdec_attention } of layers) for (const { weights } of encdec_attention.heads)
      for (let s = 0; s < sums.length; s++) sums[s] += weights[s];
    return sums.indexOf(Math.max(...sums));
  });
}

// The places of the longest common subsequence of two lists of words, in each of them.
function shared(one, other) {
  const most = Array.from({ length: one.length + 1 }, () => new Array(other.length + 1).fill(0));
  for (let i = one.length - 1; i >= 0; i--) for (let j = other.length - 1; j >= 0; j--)
    most[i][j] = one[i] === other[j] ? 1 + most[i + 1][j + 1] : Math.max(most[i + 1][j], most[i][j + 1]);
  const places = [new Set(), new Set()];
  for (let i = 0, j = 0; i < one.length && j < other.length;) {
    if (one[i] === other[j]) { places[0].add(i++); places[1].add(j++); } else if (most[i + 1][j] >= most[i][j + 1]) i++; else j++;
  }
  return places;
}

function toggle(name) {
  if (!model.off.delete(name)) model.off.add(name);
  translate();
}

function drawWithout() {
  const box = at("switches"), table = at("heads");
  box.replaceChildren();
  const switchFor = (parent, name, text) => {
    const button = make("button", parent, { type: "button", textContent: text, className: model.off.has(name) ? "off" : "" },
      { "aria-pressed": model.off.has(name), "data-off": name });
    button.onclick = () => { toggle(name); document.querySelector(`[data-off="${name}"]`)?.focus(); };
    return button;
  };
  for (const [name, text] of [["positions", "positions"], ["scaling", "scaling"], ["mask", "mask of the decoder"]]) switchFor(box, name, text);
  table.replaceChildren();
  for (const [kind, title] of Object.entries(KINDS)) {
    const stack = kind === "encoder" ? "encoder" : "decoder", part = kind === "encoder-decoder" ? "encdec_attention" : "self_attention";
    for (let layer = 0; layer < model[`${stack}_layers`]; layer++) {
      const row = make("tr", table), scope = `${stack}/layer_${layer}`;
      make("th", row, { textContent: layer ? "" : title });
      const cell = make("td", row);
      if (kind !== "encoder-decoder") switchFor(cell, scope, `layer ${layer + 1}`);
      else make("span", cell, { className: "dim", textContent: `layer ${layer + 1}` });
      for (let head = 0; head < model.num_heads; head++) {
        const label = habit(kind, layer, head), td = make("td", row);
        const button = switchFor(td, `${scope}/${part}/${head}`, `head ${head + 1}`);
        if (label) make("small", button, { textContent: label });
      }
    }
  }
  const compared = at("compared"), { whole, run } = state;
  compared.replaceChildren();
  if (whole === run) return;
  const sentences = [whole, run].map(({ target }) => written(target).split(" ")), common = shared(...sentences);
  sentences.forEach((sentence, side) => {
    const line = make("p", compared, { textContent: side ? "With parts switched off: " : "With all parts: " });
    sentence.forEach((word, i) => { make(common[side].has(i) ? "span" : "mark", line, { textContent: word }); line.append(" "); });
  });
  if (model.off.has("mask")) make("p", compared, { textContent: "When the decoder writes word by word, the mask changes nothing: there are no later words to see. When the decoder reads the whole translation at once, later words confuse this model, because it was trained with the mask. A model that was trained without the mask would copy them." });
  const logP = (steps) => steps.reduce((sum, { logits }, i) => sum + logits[whole.target[i]] - logSumExp(logits), 0);
  const now = logP(model.read(whole.target, run.encoded)), before = logP(whole.trace);
  make("p", compared, { className: "dim", textContent: `log P of the translation that the model with all parts writes, given to the decoder at once, as in training: ${before.toFixed(2)} with all parts, ${now.toFixed(2)} now.` });
}

// --- controls

at("ask").onsubmit = (event) => { event.preventDefault(); Object.assign(state, { forced: [], word: null, step: 0, query: 0, key: 0 }); translate(at("text").value); };
at("kind").onchange = () => choose({ kind: at("kind").value });
at("number").onchange = () => choose({ layer: +at("number").value });
at("head").onchange = () => choose({ head: +at("head").value });
at("beam").oninput = () => { state.beam = +at("beam").value; translate(); };
at("alpha").oninput = () => { state.alpha = +at("alpha").value; translate(); };
at("step").oninput = () => choose({ step: +at("step").value });
at("reference").onchange = () => { if (state.run) drawRanks(); };
at("free").onclick = () => { state.forced = []; translate(); };
at("restore").onclick = () => { model.off.clear(); translate(); };
at("play").onclick = () => {
  choose({ step: 0 });
  const next = () => { if (state.step + 1 < state.run.steps.length) { choose({ step: state.step + 1 }); setTimeout(next, 500); } };
  setTimeout(next, 500);
};
at("matrix").onkeydown = (event) => {
  const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (!move) return;
  event.preventDefault();
  const query = Math.max(0, state.query + move[0]), key = Math.max(0, state.key + move[1]);
  const button = at("matrix").querySelector(`[data-at="${query},${key}"]`);
  if (button) button.click();
};

function follow() {  // page.html#text=A%20dog%20runs.&beam=4&alpha=0.6
  const flags = new URLSearchParams(location.hash.slice(1));
  state.beam = Math.max(1, Math.min(8, +(flags.get("beam") ?? data.beam_size)));
  state.alpha = +(flags.get("alpha") ?? data.alpha);
  Object.assign(at("beam"), { value: state.beam });
  Object.assign(at("alpha"), { value: state.alpha });
  at("text").value = flags.get("text") ?? at("text").value;
  translate(at("text").value);
}

at("facts").textContent = `${model.encoder_layers} encoder and ${model.decoder_layers} decoder layers, D = ${model.hidden_size}, `
  + `${model.num_heads} heads of ${model.width}, feed-forward ${model.filter_size}, ${data.subwords.length.toLocaleString("en")} subwords, `
  + `${data.parameters.toLocaleString("en")} parameters.`;
window.explainer = {
  translate: async (text, settings) => written(compute(text, settings).best.ids),
  logits: async (text, targets) => {
    const encoded = model.encode([...subwords.encode(text.trim()), EOS]);
    return model.read(targets, encoded).map(({ logits }) => [...logits]);
  },
};
window.onhashchange = follow;
follow();
