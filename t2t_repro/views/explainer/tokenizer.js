// tensor2tensor's subwords: text to ids and back (t2t_repro/text/{tokenizer,escaping,subword}.py).

class Subwords {
  constructor(subtokens) {
    this.subtokens = subtokens;
    this.ids = new Map();
    subtokens.forEach((subtoken, id) => { if (subtoken) this.ids.set(subtoken, id); });
    this.alphabet = new Set(subtokens.flatMap((subtoken) => [...subtoken]));
    this.longest = subtokens.reduce((most, subtoken) => Math.max(most, [...subtoken].length), 0);
  }

  // A token is a longest run of letters and digits, or of everything else; one blank between two
  // words makes none.
  tokens(text) {
    const runs = text.match(/[\p{L}\p{N}]+|[^\p{L}\p{N}]+/gu) ?? [];
    return runs.filter((run, i) => i === 0 || i === runs.length - 1 || run !== " ");
  }

  escape(token) {
    const spelled = [...token.replaceAll("\\", "\\\\").replaceAll("_", "\\u")];
    return spelled.map((c) => this.alphabet.has(c) && c !== "\n" ? c : `\\${c.codePointAt(0)};`).join("") + "_";
  }

  // The longest match from left to right: [{id, piece, tried}], `tried` the longer ones that failed.
  match(token) {
    const characters = [...this.escape(token)], found = [];
    for (let start = 0; start < characters.length;) {
      const tried = [];
      let end = Math.min(characters.length, start + this.longest), id;
      for (; end > start; end--) {
        const piece = characters.slice(start, end).join("");
        id = this.ids.get(piece);
        if (id !== undefined) { found.push({ id, piece, tried: tried.slice(-8) }); break; }
        tried.push(piece);
      }
      start = end;
    }
    return found;
  }

  encode(text) { return this.tokens(text).flatMap((token) => this.match(token).map(({ id }) => id)); }

  decode(ids) {
    const spelled = ids.filter((id) => id > 1).map((id) => this.subtokens[id] ?? "").join("");
    const tokens = spelled.split("_").filter(Boolean).map((part) =>
      part.replace(/\\(u|\\|[0-9]+;)/g, (_, code) => {
        if (code === "u") return "_";
        if (code === "\\") return "\\";
        const point = parseInt(code, 10);
        return point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff) ? "\u3013" : String.fromCodePoint(point);
      })).filter(Boolean);
    let text = "", afterWord = false;
    for (const token of tokens) {
      const isWord = /^[\p{L}\p{N}]/u.test(token);
      text += (afterWord && isWord ? " " : "") + token;
      afterWord = isWord;
    }
    return text;
  }

  show(id) { return id === 1 ? "</s>" : id === 0 ? "<start>" : this.subtokens[id]; }
}
