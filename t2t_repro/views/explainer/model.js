// The Transformer as tensor2tensor computes it, one sentence at a time, in float32 arrays.
// Legend: S source length, T target length, D hidden_size, N heads, H = D / N, V vocabulary.

// 16-bit whole numbers, low byte first, and a scale for each row -> Float32Array.
function unpacked(base64, scales, depths) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const words = new Int16Array(bytes.buffer), values = new Float32Array(words.length);
  let row = 0, at = 0;
  for (const [rows, depth] of depths)
    for (let end = row + rows; row < end; row++)
      for (let i = 0; i < depth; i++, at++) values[at] = words[at] * scales[row];
  return values;
}

function unpackedScales(base64) {
  return new Float32Array(Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)).buffer);
}

function times(x, kernel, width) {  // (D) x (D, width) -> (width)
  const y = new Float64Array(width);
  for (let i = 0; i < x.length; i++) {
    const value = x[i], row = i * width;
    if (value !== 0) for (let j = 0; j < width; j++) y[j] += value * kernel[row + j];
  }
  return new Float32Array(y);
}

function softmax(logits) {
  const weights = new Float32Array(logits.length);
  let most = -Infinity, sum = 0;
  for (let i = 0; i < logits.length; i++) if (logits[i] > most) most = logits[i];
  for (let i = 0; i < logits.length; i++) sum += weights[i] = Math.exp(logits[i] - most);
  for (let i = 0; i < logits.length; i++) weights[i] /= sum;
  return weights;
}

function logSumExp(logits) {
  let most = -Infinity, sum = 0;
  for (let i = 0; i < logits.length; i++) if (logits[i] > most) most = logits[i];
  for (let i = 0; i < logits.length; i++) sum += Math.exp(logits[i] - most);
  return most + Math.log(sum);
}

function add(x, y) {
  const sum = new Float32Array(x.length);
  for (let i = 0; i < x.length; i++) sum[i] = x[i] + y[i];
  return sum;
}

const norm = (x) => Math.sqrt(x.reduce((sum, value) => sum + value * value, 0));

class Transformer {
  constructor(data) {
    Object.assign(this, data.config);
    this.width = this.hidden_size / this.num_heads;
    const scales = unpackedScales(data.scales), all = unpacked(data.weights, scales, data.arrays.map(([, ...shape]) => shape));
    let at = 0;
    this.values = {};
    for (const [name, rows, depth] of data.arrays) this.values[name] = all.subarray(at, at += rows * depth);
    for (const [name, other] of Object.entries(data.shared)) this.values[name] = this.values[other];
    this.off = new Set();  // what the reader took away: "encoder/layer_0/self_attention/2", "mask"
  }

  // --- embedding and positions (paper, sections 3.4 and 3.5)

  embedding(id, side) {  // id 0, padding and the decoder's first input, is the zero vector
    if (id === 0) return new Float32Array(this.hidden_size);
    const table = this.values[`${side}_embedding`], start = id * this.hidden_size;
    return table.slice(start, start + this.hidden_size).map((value) => value * this.embedding_scale);
  }

  signal(position) {  // sines in the first half of the channels, cosines in the second
    const count = this.hidden_size >> 1, y = new Float32Array(this.hidden_size);
    if (this.pos !== "timing" || this.off.has("positions")) return y;
    for (let i = 0; i < count; i++) {
      const angle = Math.fround(position * this.timescales[i]);
      y[i] = Math.sin(angle);
      y[count + i] = Math.cos(angle);
    }
    return y;
  }

  // --- sublayers (paper, section 3.1): post(x, layer(pre(x)))

  process(x, previous, sequence, scope) {
    let norms = 0;
    for (const step of sequence === "none" ? "" : sequence) {
      if (step === "a") x = add(x, previous);
      else if (step === "n") x = this.normalized(x, scope, norms++);  // "d" is dropout, off here
    }
    return x;
  }

  normalized(x, scope, number) {
    if (this.norm_type === "none") return x;
    const kind = `${scope}/layer_norm${number ? `_${number}` : ""}`;
    const scale = this.values[`${kind}/layer_norm_scale`], bias = this.values[`${kind}/layer_norm_bias`];
    let mean = 0, variance = 0;
    for (const value of x) mean += value / x.length;
    for (const value of x) variance += (value - mean) ** 2 / x.length;
    const inverse = 1 / Math.sqrt(variance + this.norm_epsilon);
    return x.map((value, i) => (value - mean) * inverse * scale[i] + bias[i]);
  }

  sublayer(x, scope, layer) {  // -> {input, before, inner, output, ...}
    const layerName = scope.split("/").slice(0, 2).join("/");
    const input = this.process(x, null, this.layer_preprocess_sequence, `${scope}/layer_prepostprocess`);
    const inner = layer(input);
    if (this.off.has(layerName) || this.off.has(scope)) inner.output = inner.output.map(() => 0);
    const output = this.process(inner.output, x, this.layer_postprocess_sequence, `${scope}/layer_postprocess`);
    return { ...inner, scope, x, input, sum: inner.output, output, norm: norm(output) };
  }

  project(x, scope, part) {
    return times(x, this.values[`${scope}/multihead_attention/${part}/kernel`], this.hidden_size);
  }

  // softmax(q k / sqrt(H)) v for each head (paper, section 3.2)
  attend(query, keys, values, scope, seen = keys.length) {
    const { width, num_heads } = this, heads = [], joined = new Float32Array(this.hidden_size);
    const scale = this.scaled && !this.off.has("scaling") ? width ** -0.5 : 1;
    for (let head = 0; head < num_heads; head++) {
      const start = head * width, products = new Float32Array(seen);
      for (let s = 0; s < seen; s++) {
        let sum = 0;
        for (let i = start; i < start + width; i++) sum += query[i] * keys[s][i];
        products[s] = sum;
      }
      const weights = softmax(products.map((value) => value * scale));
      if (!this.off.has(`${scope}/${head}`))
        for (let s = 0; s < seen; s++)
          for (let i = start; i < start + width; i++) joined[i] += weights[s] * values[s][i];
      heads.push({ products, weights, scale });
    }
    return { output: this.project(joined, scope, "output_transform"), heads, query };
  }

  feedForward(x, scope) {  // max(0, x W1 + b1) W2 + b2 (paper, section 3.3)
    const { values } = this, dense = (y, name, width) =>
      add(times(y, values[`${scope}/${name}/kernel`], width), values[`${scope}/${name}/bias`]);
    const hidden = dense(x, "conv1", this.filter_size).map((value) => Math.max(0, value));
    return { output: dense(hidden, "conv2", this.hidden_size), hidden };
  }

  // --- encoder: ids (S) -> memory (S, D), with everything that was computed on the way

  encode(ids) {
    let x = ids.map((id, position) => {
      let vector = this.embedding(id, "inputs");
      if (this.values.target_space) vector = add(vector, this.values.target_space);
      return add(vector, this.signal(position));
    });
    const start = x, layers = [];
    for (let number = 0; number < this.encoder_layers; number++) {
      const scope = `encoder/layer_${number}`, own = `${scope}/self_attention`;
      const inputs = x.map((each) =>
        this.process(each, null, this.layer_preprocess_sequence, `${own}/layer_prepostprocess`));
      const keys = inputs.map((each) => this.project(each, own, "k"));
      const values = inputs.map((each) => this.project(each, own, "v"));
      const attention = x.map((each) => this.sublayer(each, own, (input) =>
        this.attend(this.project(input, own, "q"), keys, values, own)));
      const ffn = attention.map(({ output }) =>
        this.sublayer(output, `${scope}/ffn`, (input) => this.feedForward(input, `${scope}/ffn`)));
      x = ffn.map(({ output }) => output);
      layers.push({ self_attention: { positions: attention, keys, values }, ffn: { positions: ffn } });
    }
    const memory = x.map((each) =>
      this.process(each, null, this.layer_preprocess_sequence, "encoder/layer_prepostprocess"));
    const sides = [];
    for (let number = 0; number < this.decoder_layers; number++) {
      const scope = `decoder/layer_${number}/encdec_attention`;
      sides.push({
        keys: memory.map((each) => this.project(each, scope, "k")),
        values: memory.map((each) => this.project(each, scope, "v")),
      });
    }
    return { ids, start, layers, memory, sides };
  }

  // --- decoder, one position at a time; a cache is one {k, v} a layer and position, never changed

  begin() { return Array.from({ length: this.decoder_layers }, () => ({ keys: [], values: [] })); }

  step(id, position, caches, encoded) {
    let x = add(this.embedding(id, "targets"), this.signal(position));
    const start = x, layers = [], next = [];
    for (let number = 0; number < this.decoder_layers; number++) {
      const scope = `decoder/layer_${number}`, own = `${scope}/self_attention`, cross = `${scope}/encdec_attention`;
      const cache = caches[number];
      const self = this.sublayer(x, own, (input) => {
        const k = this.project(input, own, "k"), v = this.project(input, own, "v");
        const grown = { keys: [...cache.keys, k], values: [...cache.values, v] };
        next.push(grown);
        return this.attend(this.project(input, own, "q"), grown.keys, grown.values, own);
      });
      const other = this.sublayer(self.output, cross, (input) => this.attend(
        this.project(input, cross, "q"), encoded.sides[number].keys, encoded.sides[number].values, cross));
      const ffn = this.sublayer(other.output, `${scope}/ffn`, (input) => this.feedForward(input, `${scope}/ffn`));
      x = ffn.output;
      layers.push({ self_attention: self, encdec_attention: other, ffn });
    }
    const top = this.process(x, null, this.layer_preprocess_sequence, "decoder/layer_prepostprocess");
    return { id, position, start, layers, caches: next, top, logits: this.logits(top) };
  }

  logits(x) {
    const table = this.values.softmax, depth = this.hidden_size, count = table.length / depth;
    const y = new Float32Array(count);
    for (let id = 0, at = 0; id < count; id++) {
      let sum = 0;
      for (let i = 0; i < depth; i++) sum += x[i] * table[at++];
      y[id] = sum;
    }
    return y;
  }

  // The decoder over a whole target, as in training: position t reads the words before t. Without
  // the mask every position sees all of them, its own answer too.
  read(targets, encoded) {
    const inputs = [0, ...targets.slice(0, -1)];
    if (!this.off.has("mask")) {
      let caches = this.begin();
      return inputs.map((id, position) => {
        const step = this.step(id, position, caches, encoded);
        caches = step.caches;
        return step;
      });
    }
    // Layer by layer: keys and values of all positions first, then every position looks at all.
    const { layer_preprocess_sequence } = this;
    let x = inputs.map((id, position) => add(this.embedding(id, "targets"), this.signal(position)));
    const layers = inputs.map(() => []), start = x, caches = [];
    for (let number = 0; number < this.decoder_layers; number++) {
      const scope = `decoder/layer_${number}`, own = `${scope}/self_attention`, cross = `${scope}/encdec_attention`;
      const before = x.map((each) => this.process(each, null, layer_preprocess_sequence, `${own}/layer_prepostprocess`));
      const keys = before.map((each) => this.project(each, own, "k")), values = before.map((each) => this.project(each, own, "v"));
      caches.push({ keys, values });
      x = x.map((each, position) => {
        const self = this.sublayer(each, own, (input) => this.attend(this.project(input, own, "q"), keys, values, own));
        const other = this.sublayer(self.output, cross, (input) => this.attend(
          this.project(input, cross, "q"), encoded.sides[number].keys, encoded.sides[number].values, cross));
        const ffn = this.sublayer(other.output, `${scope}/ffn`, (input) => this.feedForward(input, `${scope}/ffn`));
        layers[position].push({ self_attention: self, encdec_attention: other, ffn });
        return ffn.output;
      });
    }
    return x.map((each, position) => {
      const top = this.process(each, null, layer_preprocess_sequence, "decoder/layer_prepostprocess");
      return { id: inputs[position], position, start: start[position], layers: layers[position], caches, top, logits: this.logits(top) };
    });
  }
}
