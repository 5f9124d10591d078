import { z } from "zod";
import { ModelFileError } from "../model-errors.js";

/** How GGUF files number the kinds of tokens. */
const tokenKinds = { normal: 1, control: 3, unused: 5 } as const;

const controlTokens = new Set(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]);

const tokenizerSchema = z.object({ model: z.object({ vocab: z.record(z.string(), z.number().int().min(0)) }) });

/** The word pieces of a BERT tokenizer by id. */
export class Vocabulary {
  readonly #pieces: readonly string[];
  readonly #ids: ReadonlyMap<string, number>;

  /** Throws ModelFileError unless there are exactly `size` pieces, each of them once. */
  constructor(pieces: readonly string[], size: number) {
    this.#pieces = pieces;
    this.#ids = new Map(pieces.map((piece, id) => [piece, id]));
    if (pieces.length !== size || this.#ids.size !== size) {
      throw new ModelFileError(
        "malformed",
        `the vocabulary has ${this.#ids.size} different tokens, config.json says ${size}. Fetch both again`,
      );
    }
  }

  /** From the text of a vocab.txt: one piece a line, its id is its line. */
  static fromLines(text: string, size: number): Vocabulary {
    return new Vocabulary(text.replace(/\n$/, "").split("\n"), size);
  }

  /** From the text of a tokenizer.json. */
  static fromTokenizer(text: string, size: number): Vocabulary {
    const parsed = tokenizerSchema.safeParse(JSON.parse(text));
    if (!parsed.success) throw new ModelFileError("unsupported", "tokenizer.json holds no word-piece vocabulary");
    const pieces = Array.from({ length: size }, () => "");
    for (const [piece, id] of Object.entries(parsed.data.model.vocab)) {
      if (id < size) pieces[id] = piece;
    }
    return new Vocabulary(pieces, size);
  }

  /** Throws ModelFileError when there is no such token. */
  id(token: string): number {
    const id = this.#ids.get(token);
    if (id === undefined) throw new ModelFileError("unsupported", `the vocabulary has no ${token}: not that of a BERT`);
    return id;
  }

  /** The pieces as GGUF files spell them: the start of a word is marked, not its continuation. */
  spelled(): string[] {
    return this.#pieces.map((piece) => {
      if (/^\[.+\]$/.test(piece)) return piece;
      return piece.startsWith("##") ? piece.slice(2) : `\u2581${piece}`;
    });
  }

  /** One number a piece: how GGUF files call its kind. */
  kinds(): number[] {
    return this.#pieces.map((piece) => {
      if (controlTokens.has(piece)) return tokenKinds.control;
      return piece.startsWith("[unused") ? tokenKinds.unused : tokenKinds.normal;
    });
  }
}
