// Translates with the ONNX model beside this file, by T2T's beam search.
//
//   npm install onnxruntime-node && node translate.mjs < source.txt > translation.txt
//
// translate.html imports it in a browser, where onnxruntime-web computes.

const EOS = 1;

// T2T's subwords: the longest match from left to right.
export class Subwords {
  constructor(text) {
    this.pieces = text.split("\n").map((line) => line.trimEnd().replace(/^(['"])(.*)\1$/s, "$2"));
    this.ids = new Map(this.pieces.map((piece, i) => [piece, i]).filter(([piece]) => piece));
    this.alphabet = new Set(this.pieces.join(""));
    this.longest = Math.max(...this.pieces.map((piece) => [...piece].length));
  }

  encode(text) {
    const runs = text.match(/[\p{L}\p{N}]+|[^\p{L}\p{N}]+/gu) ?? [];
    const ids = [];
    runs.forEach((run, i) => {
      if (run === " " && i > 0 && i < runs.length - 1) return; // decoding puts it between two words
      const escaped = run.replaceAll("\\", "\\\\").replaceAll("_", "\\u");
      const spell = (c) => (this.alphabet.has(c) ? c : `\\${c.codePointAt(0)};`);
      const word = [...[...escaped].map(spell).join(""), "_"];
      for (let start = 0; start < word.length; ) {
        let end = Math.min(word.length, start + this.longest);
        while (end > start && !this.ids.has(word.slice(start, end).join(""))) end--;
        if (end === start) {
          word.splice(start, 1, ...`\\${word[start].codePointAt(0)};`); // it is no piece by itself
          continue;
        }
        ids.push(this.ids.get(word.slice(start, end).join("")));
        start = end;
      }
    });
    return ids;
  }

  decode(ids) {
    const spelled = ids.map((i) => this.pieces[i]).join("");
    const words = spelled.split("_").filter(Boolean).map((word) => word.replace(/\\(u|\\|[0-9]+;)/g, Subwords.meaning));
    const isWord = (word) => word !== undefined && /^[\p{L}\p{N}]/u.test(word);
    return words.map((word, i) => word + (isWord(word) && isWord(words[i + 1]) ? " " : "")).join("");
  }

  static meaning(_, code) {
    if (code === "u" || code === "\\") return code === "u" ? "_" : "\\";
    const number = Number(code.slice(0, -1));
    return number < 0xd800 || (number >= 0xe000 && number < 0x110000) ? String.fromCodePoint(number) : "\u3013";
  }
}

export class Translator {
  // ort: the module onnxruntime-node or onnxruntime-web; read(name): the bytes of a file of the folder.
  static async load(ort, read) {
    const text = async (name) => new TextDecoder().decode(await read(name));
    const made = new Translator();
    Object.assign(made, JSON.parse(await text("search.json")), { ort });
    if (!made.vocabularies.every((name) => name.endsWith(".subwords")))
      throw new Error("translate.mjs reads only T2T's subword vocabularies. For SentencePiece use translate.py.");
    const sides = await Promise.all(made.vocabularies.map(async (name) => new Subwords(await text(name))));
    [made.source, made.target] = [sides[0], sides.at(-1)];
    made.encoder = await ort.InferenceSession.create(await read("encoder_model.onnx"));
    made.decoder = await ort.InferenceSession.create(await read("decoder_model_merged.onnx"));
    return made;
  }

  async translate(line) {
    const ids = this.source.encode(line.trim()).slice(0, this.max_input_size - 1);
    if (!ids.length) return "";
    return this.target.decode(await this.search([...ids, EOS])).replace(/[\r\n]+/g, " ");
  }

  // Source ids -> target ids without the end; one beam is greedy search.
  async search(source) {
    const { ort, beam_size: beams } = this;
    const limit = Math.min(source.length + this.extra_length, this.max_length);
    const integers = (values, shape) => new ort.Tensor("int64", BigInt64Array.from(values, BigInt), shape);
    const shape = [beams, source.length];
    const mask = integers(new Array(beams * source.length).fill(1), shape);
    const input_ids = integers(new Array(beams).fill(source).flat(), shape);
    const { last_hidden_state } = await this.encoder.run({ input_ids, attention_mask: mask });
    const feed = { encoder_hidden_states: last_hidden_state, encoder_attention_mask: mask };
    const past = this.decoder.inputNames.filter((name) => name.startsWith("past"));
    for (const name of past) feed[name] = new ort.Tensor("float32", [], [beams, this.heads, 0, this.head_width]);
    let [last, alive, finished] = [new Array(beams).fill(0), new Array(beams).fill([]), []];
    let logProbs = [0, ...new Array(beams - 1).fill(-1e9)];
    for (let step = 0; step < limit; step++) {
      feed.input_ids = integers(last, [beams, 1]);
      feed.use_cache_branch = new ort.Tensor("bool", [step > 0], [1]);
      const outputs = await this.decoder.run(feed);
      const best = this.best(outputs.logits, logProbs, this.penalty(step + 1));
      finished.push(...best.filter((each) => each.id === EOS).map((each) => [each.score, alive[each.parent]]));
      finished = finished.sort((a, b) => b[0] - a[0]).slice(0, beams);
      if (beams === 1 && finished.length) break;
      const going = best.filter((each) => each.id !== EOS).slice(0, beams);
      last = going.map((each) => each.id);
      logProbs = going.map((each) => each.score * this.penalty(step + 1));
      alive = going.map((each) => [...alive[each.parent], each.id]);
      for (const name of past) {
        const value = outputs[name.replace("past_key_values", "present")];
        const parents = going.map((each) => each.parent);
        feed[name] = name.includes(".encoder.") ? value : this.rows(value, parents);
      }
      if (finished.length && finished[0][0] > logProbs[0] / this.penalty(limit)) break;
    }
    return finished.length ? finished[0][1] : alive[0];
  }

  // The best continuations of the beams: [{score, parent, id}], the best first.
  best(logits, logProbs, penalty) {
    const size = logits.dims[2];
    const count = this.beam_size > 1 ? 2 * this.beam_size : 1;
    const found = [];
    logProbs.forEach((logProb, parent) => {
      const row = logits.data.subarray(parent * size, (parent + 1) * size);
      const most = row.reduce((a, b) => Math.max(a, b));
      const sum = Math.log(row.reduce((total, logit) => total + Math.exp(logit - most), 0));
      row.forEach((logit, id) => {
        const score = (logit - most - sum + logProb) / penalty;
        let place = found.length;
        while (place > 0 && found[place - 1].score < score) place--;
        if (place < count) found.splice(place, 0, { score, parent, id });
        if (found.length > count) found.pop();
      });
    });
    return found;
  }

  // A tensor of those rows of another.
  rows(tensor, parents) {
    const size = tensor.data.length / tensor.dims[0];
    const data = new Float32Array(parents.length * size);
    parents.forEach((parent, i) => data.set(tensor.data.subarray(parent * size, (parent + 1) * size), i * size));
    return new this.ort.Tensor("float32", data, [parents.length, ...tensor.dims.slice(1)]);
  }

  penalty(length) {
    return this.beam_size > 1 ? ((5 + length) / 6) ** this.alpha : 1;
  }
}

if (typeof process !== "undefined" && process.argv?.[1] === (await import("node:url")).fileURLToPath(import.meta.url)) {
  const { readFile } = await import("node:fs/promises");
  const read = (name) => readFile(new URL(name, import.meta.url));
  const translator = await Translator.load(await import("onnxruntime-node"), read);
  let rest = "";
  for await (const some of process.stdin.setEncoding("utf8")) {
    const lines = (rest + some).split("\n"); // a line ends nowhere else
    rest = lines.pop();
    for (const line of lines) console.log(await translator.translate(line));
  }
  if (rest) console.log(await translator.translate(rest));
}
