import { byteVocabulary } from "./byte-vocabulary.js";
import { addLayers, chatMl, headWidth, llamaHeader } from "./llama-gguf.js";

export interface ScriptedGguf {
  /** The model's answer. Each distinct word has one successor: the word after its last occurrence. */
  readonly text: string;
  /** Whether the text begins again at its end, until the context is full. Default false. */
  readonly isEndless?: boolean;
  /** Parts of the text, each of which is a control token. Default none. */
  readonly controls?: readonly string[];
  /** Default 2048. */
  readonly contextLength?: number;
  readonly chatTemplate?: string;
  /** More layers take longer to evaluate, and change nothing. Default 1. */
  readonly layers?: number;
}

/**
 * Writes a real model, of a few MB, that answers every prompt with one exact text at any temperature: tokens are
 * one-hot vectors, the layers add nothing, and the output matrix is a table of successors.
 */
export async function writeScriptedGguf(path: string, options: ScriptedGguf): Promise<void> {
  const controls = options.controls ?? [];
  const words = wordsOf(options.text, controls);
  const vocabulary = byteVocabulary(
    words.filter((word) => !controls.includes(word)),
    controls,
  );
  const count = vocabulary.tokens.length;
  const heads = Math.ceil(count / headWidth);
  const width = heads * headWidth;
  const shape = {
    name: "scripted",
    layers: options.layers ?? 1,
    heads,
    width,
    feedForward: 64,
    contextLength: options.contextLength ?? 2048,
    chatTemplate: options.chatTemplate ?? chatMl,
  };
  const follows = successors(
    words.map((word) => vocabulary.id(word)),
    options.isEndless === true,
    vocabulary.controls.end,
    count,
  );
  const gguf = llamaHeader(shape, vocabulary);
  gguf.tensor("token_embd.weight", [width, count], "F32", () => table(count, width, (token) => token, 1));
  addLayers(gguf, shape, (numbers) => new Float32Array(numbers));
  // Column of a token: which tokens it follows. Stronger than any penalty, so that the text is exact.
  gguf.tensor("output.weight", [width, count], "F32", () => {
    const numbers = new Float32Array(count * width);
    for (const [token, next] of follows.entries()) numbers[next * width + token] = 4;
    return numbers;
  });
  await gguf.write(path);
}

/** Splits into words with the white space before them. White space before a control text is a separate word. */
function wordsOf(text: string, controls: readonly string[]): readonly string[] {
  const parts = controls.reduce<readonly string[]>(
    (cut, control) => cut.flatMap((part) => part.split(new RegExp(`(${control})`))),
    [text],
  );
  return parts.flatMap((part) => (controls.includes(part) ? [part] : (part.match(/\s?[^\s]+|\s/gu) ?? [])));
}

/** Successor of each token: the next word; after the last word the end or the first word, after any other token the first. */
function successors(script: readonly number[], isEndless: boolean, end: number, count: number): readonly number[] {
  const first = script[0] ?? end;
  const follows = new Array<number>(count).fill(first);
  for (const [i, token] of script.entries()) follows[token] = script[i + 1] ?? (isEndless ? first : end);
  return follows;
}

function table(rows: number, columns: number, hot: (row: number) => number, value: number): Float32Array {
  const numbers = new Float32Array(rows * columns);
  for (let row = 0; row < rows; row++) numbers[row * columns + hot(row)] = value;
  return numbers;
}
