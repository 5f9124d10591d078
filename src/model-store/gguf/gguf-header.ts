import { type FileHandle, open, stat } from "node:fs/promises";
import { FileCursor, malformedGguf } from "./file-cursor.js";
import { defaultAlignment, ggufMagic, tensorTypes, valueTypes } from "./format.js";

/** Metadata of the model in a GGUF file; a value is null if it is absent or unusable. */
export interface GgufHeader {
  readonly architecture: string;
  readonly name: string | null;
  readonly license: string | null;
  /** Length of the context that the model was trained with, in tokens. */
  readonly contextLength: number | null;
  /** Width of the model's vectors. */
  readonly embeddingLength: number | null;
  /** How an encoder combines its token vectors: 1 mean, 2 first token, 3 last token; 0 or null: it does not. */
  readonly poolingType: number | null;
  readonly tokenizer: string | null;
  readonly chatTemplate: string | null;
  /** The format's number for the kind of quantisation. */
  readonly fileType: number | null;
  /** Memory of each token in a context (KV cache) in bytes, at two bytes per value. */
  readonly contextBytesPerToken: number | null;
  readonly tensorCount: number;
  /** Number of values of all tensors together. */
  readonly parameterCount: number;
}

/** Maximum number of tensors, and of metadata keys. */
const countMax = 65_536;
const alignmentMax = 65_536;

/**
 * Reads and checks the header of a GGUF file, so that native code never parses a hostile one: magic and version, counts,
 * lengths of texts, products of dimensions, and that every tensor lies within the file. Takes well under a second for
 * any file. Throws ModelFileError.
 */
export async function readGgufHeader(path: string): Promise<GgufHeader> {
  // Checked before the file is opened, because opening a named pipe waits for a writer.
  if (!(await stat(path)).isFile()) throw malformedGguf("it is not a regular file");
  const file = await open(path, "r");
  try {
    return await readHeader(file);
  } finally {
    await file.close();
  }
}

async function readHeader(file: FileHandle): Promise<GgufHeader> {
  const { size: fileBytes } = await file.stat();
  const cursor = new FileCursor(file, fileBytes);
  if ((await cursor.uint32()) !== ggufMagic) throw malformedGguf("it does not begin with the letters GGUF");
  const version = await cursor.uint32();
  if (version !== 2 && version !== 3) throw malformedGguf(`its version is ${version}; 2 and 3 are known`);
  const tensorCount = await cursor.uint64();
  const keyCount = await cursor.uint64();
  if (tensorCount < 1 || tensorCount > countMax || keyCount > countMax) {
    throw malformedGguf(`it announces ${tensorCount} tensors and ${keyCount} keys; the limit is ${countMax} each`);
  }
  const metadata = await readMetadata(cursor, keyCount);
  const tensors = await readTensors(cursor, tensorCount);
  checkPlaces(tensors, alignmentOf(metadata), cursor.position, fileBytes);
  return describe(metadata, tensors);
}

function alignmentOf(metadata: Metadata): number {
  const alignment = metadata.get("general.alignment") ?? defaultAlignment;
  const isPowerOfTwo = typeof alignment === "number" && Number.isInteger(Math.log2(alignment));
  if (!isPowerOfTwo || alignment < 1 || alignment > alignmentMax) {
    throw malformedGguf(`its alignment is ${String(alignment)}, not a power of two up to ${alignmentMax}`);
  }
  return alignment;
}

function checkPlaces(tensors: readonly TensorInfo[], alignment: number, headerEnd: number, fileBytes: number) {
  const dataBytes = fileBytes - Math.ceil(headerEnd / alignment) * alignment;
  for (const { name, offset, bytes } of tensors) {
    if (offset % alignment !== 0 || offset > dataBytes || bytes > dataBytes - offset) {
      throw malformedGguf(`tensor ${JSON.stringify(name)} does not lie within the file`);
    }
  }
}

function describe(metadata: Metadata, tensors: readonly TensorInfo[]): GgufHeader {
  const architecture = textOf(metadata, "general.architecture");
  if (architecture === null || architecture === "") throw malformedGguf("it does not name its architecture");
  return {
    architecture,
    name: textOf(metadata, "general.name"),
    license: textOf(metadata, "general.license"),
    contextLength: countOf(metadata, `${architecture}.context_length`),
    embeddingLength: countOf(metadata, `${architecture}.embedding_length`),
    poolingType: countOf(metadata, `${architecture}.pooling_type`),
    tokenizer: textOf(metadata, "tokenizer.ggml.model"),
    chatTemplate: textOf(metadata, "tokenizer.chat_template"),
    fileType: countOf(metadata, "general.file_type"),
    contextBytesPerToken: contextBytesPerToken(metadata, architecture),
    tensorCount: tensors.length,
    parameterCount: tensors.reduce((sum, { values }) => sum + values, 0),
  };
}

const bytesPerValue = 2;

/** Bytes of the keys and values of all layers for one token of a context. */
function contextBytesPerToken(metadata: Metadata, architecture: string): number | null {
  const count = (name: string): number | null => countOf(metadata, `${architecture}.${name}`);
  const layers = count("block_count");
  const heads = count("attention.head_count");
  const width = count("embedding_length");
  if (layers === null || heads === null || heads === 0 || width === null) return null;
  // If the file has one count per layer, `metadata` has no value; then all heads are counted, which is the maximum.
  const keptHeads = count("attention.head_count_kv") ?? heads;
  const keyLength = count("attention.key_length") ?? width / heads;
  const valueLength = count("attention.value_length") ?? width / heads;
  return Math.ceil(layers * keptHeads * (keyLength + valueLength) * bytesPerValue);
}

function textOf(metadata: Metadata, key: string): string | null {
  const value = metadata.get(key);
  return typeof value === "string" ? value : null;
}

function countOf(metadata: Metadata, key: string): number | null {
  const value = metadata.get(key);
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : null;
}

/** The task of a model. */
export type ModelKind = "chat" | "embedding";

/** An embedding model pools its token vectors or is an encoder; all others generate text. */
export function modelKind({ architecture, poolingType }: GgufHeader): ModelKind {
  const pools = poolingType !== null && poolingType >= 1 && poolingType <= 3;
  return pools || architecture.includes("bert") ? "embedding" : "chat";
}

/** Metadata values by key, without arrays and unused texts, which are only checked. */
type Metadata = ReadonlyMap<string, string | number | boolean>;

const keyBytesMax = 65_535;
const textBytesMax = 16 * 1024 * 1024;
/** Maximum strings of all arrays together. The largest vocabularies with their merges have less than a million. */
const arrayTextsMax = 2 * 1024 * 1024;

/** Keys whose texts are kept. */
const keptTexts = new Set([
  "general.architecture",
  "general.name",
  "general.license",
  "tokenizer.ggml.model",
  "tokenizer.chat_template",
]);

/** Length of a scalar of each type in bytes, and its reader. */
const scalars: ReadonlyMap<number, readonly [bytes: number, read: (view: DataView) => number | boolean]> = new Map([
  [valueTypes.bool, [1, (view) => view.getUint8(0) !== 0]],
  [valueTypes.uint8, [1, (view) => view.getUint8(0)]],
  [valueTypes.int8, [1, (view) => view.getInt8(0)]],
  [valueTypes.uint16, [2, (view) => view.getUint16(0, true)]],
  [valueTypes.int16, [2, (view) => view.getInt16(0, true)]],
  [valueTypes.uint32, [4, (view) => view.getUint32(0, true)]],
  [valueTypes.int32, [4, (view) => view.getInt32(0, true)]],
  [valueTypes.float32, [4, (view) => view.getFloat32(0, true)]],
  [valueTypes.uint64, [8, (view) => Number(view.getBigUint64(0, true))]],
  [valueTypes.int64, [8, (view) => Number(view.getBigInt64(0, true))]],
  [valueTypes.float64, [8, (view) => view.getFloat64(0, true)]],
]);

/** Reads `count` metadata entries. Throws ModelFileError. */
async function readMetadata(cursor: FileCursor, count: number): Promise<Metadata> {
  const kept = new Map<string, string | number | boolean>();
  const seen = new Set<string>();
  let arrayTexts = 0;
  for (let index = 0; index < count; index += 1) {
    const key = await cursor.text(keyBytesMax);
    if (seen.has(key)) throw malformedGguf(`it has the key ${JSON.stringify(key.slice(0, 64))} twice`);
    seen.add(key);
    const type = await cursor.uint32();
    if (type === valueTypes.array) {
      arrayTexts += await skipArray(cursor, arrayTextsMax - arrayTexts);
    } else if (type === valueTypes.string) {
      if (keptTexts.has(key)) kept.set(key, await cursor.text(textBytesMax));
      else await cursor.skipTexts(1, textBytesMax);
    } else {
      const [bytes, read] = scalars.get(type) ?? [];
      if (!bytes || !read) throw malformedGguf(`a value in it has the unknown type ${type}`);
      kept.set(key, read(await cursor.view(bytes)));
    }
  }
  return kept;
}

/** Skips an array and returns the number of its strings. */
async function skipArray(cursor: FileCursor, textsMax: number): Promise<number> {
  const itemType = await cursor.uint32();
  const length = await cursor.uint64();
  if (itemType === valueTypes.string) {
    if (length > textsMax) throw malformedGguf(`its arrays hold more than ${arrayTextsMax} texts`);
    await cursor.skipTexts(length, textBytesMax);
    return length;
  }
  const [itemBytes] = scalars.get(itemType) ?? [];
  if (itemBytes === undefined) throw malformedGguf(`an array in it has items of the unknown type ${itemType}`);
  cursor.skip(length * itemBytes);
  return 0;
}

/** A tensor as the header describes it. */
interface TensorInfo {
  name: string;
  values: number;
  bytes: number;
  /** Position of the data in bytes from the start of the data section. */
  offset: number;
}

const tensorNameBytesMax = 63;
const dimsMax = 4;

/** Reads the descriptions of `count` tensors and checks each one separately. Throws ModelFileError. */
async function readTensors(cursor: FileCursor, count: number): Promise<TensorInfo[]> {
  const tensors: TensorInfo[] = [];
  const names = new Set<string>();
  for (let index = 0; index < count; index += 1) {
    const tensor = await readTensor(cursor);
    if (names.has(tensor.name)) throw malformedGguf(`it has the tensor ${JSON.stringify(tensor.name)} twice`);
    names.add(tensor.name);
    tensors.push(tensor);
  }
  return tensors;
}

async function readTensor(cursor: FileCursor): Promise<TensorInfo> {
  const name = await cursor.text(tensorNameBytesMax);
  const label = `tensor ${JSON.stringify(name)}`;
  const dimCount = await cursor.uint32();
  if (dimCount < 1 || dimCount > dimsMax) throw malformedGguf(`${label} has ${dimCount} dimensions`);
  let values = 1;
  let rowLength = 0;
  for (let index = 0; index < dimCount; index += 1) {
    const dim = await cursor.uint64();
    if (dim < 1) throw malformedGguf(`${label} has an empty dimension`);
    if (index === 0) rowLength = dim;
    values *= dim;
    if (!Number.isSafeInteger(values)) throw malformedGguf(`${label} has more values than can be counted`);
  }
  const typeNumber = await cursor.uint32();
  const type = tensorTypes.get(typeNumber);
  if (!type) throw malformedGguf(`${label} is of the unknown type ${typeNumber}`);
  if (rowLength % type.blockLength !== 0) {
    throw malformedGguf(`${label} has rows of ${rowLength} values, which are no whole blocks of ${type.name}`);
  }
  const bytes = (values / type.blockLength) * type.blockBytes;
  if (!Number.isSafeInteger(bytes)) throw malformedGguf(`${label} has more bytes than can be counted`);
  return { name, values, bytes, offset: await cursor.uint64() };
}
