import { type FileHandle, open } from "node:fs/promises";
import { FileCursor, malformedGguf } from "./file-cursor.js";
import { defaultAlignment, ggufMagic, valueTypes } from "./format.js";
import { type AnnouncedTensor, readTensors } from "./tensors.js";

/** What a GGUF file says about its model; null where it says nothing, or nothing usable. */
export interface GgufHeader {
  readonly architecture: string;
  readonly name: string | null;
  readonly license: string | null;
  /** Tokens that the model was trained for. */
  readonly contextLength: number | null;
  /** Width of its vectors. */
  readonly embeddingLength: number | null;
  /** How an encoder makes one vector of many: 1 mean, 2 first token, 3 last token; 0 or null: it does not. */
  readonly poolingType: number | null;
  readonly tokenizer: string | null;
  readonly chatTemplate: string | null;
  /** The format's number for the kind of quantisation. */
  readonly fileType: number | null;
  /** Memory that each token of a context takes, at two bytes a value. */
  readonly contextBytesPerToken: number | null;
  readonly tensorCount: number;
  /** Values of all tensors together. */
  readonly parameterCount: number;
}

/** Tensors, and keys of the metadata, at most. */
const countMax = 65_536;
const alignmentMax = 65_536;

/**
 * Reads and checks the header of a GGUF file, so that no native code sees one that lies: magic and version, counts,
 * lengths of texts, products of dimensions, and that every tensor lies within the file. Takes well under a second,
 * whatever the file holds. Throws ModelFileError.
 */
export async function readGgufHeader(path: string): Promise<GgufHeader> {
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

function checkPlaces(tensors: readonly AnnouncedTensor[], alignment: number, headerEnd: number, fileBytes: number) {
  const dataBytes = fileBytes - Math.ceil(headerEnd / alignment) * alignment;
  for (const { name, offset, bytes } of tensors) {
    if (offset % alignment !== 0 || offset > dataBytes || bytes > dataBytes - offset) {
      throw malformedGguf(`tensor ${JSON.stringify(name)} does not lie within the file`);
    }
  }
}

function describe(metadata: Metadata, tensors: readonly AnnouncedTensor[]): GgufHeader {
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

/** Keys and values of all layers. */
function contextBytesPerToken(metadata: Metadata, architecture: string): number | null {
  const count = (name: string): number | null => countOf(metadata, `${architecture}.${name}`);
  const layers = count("block_count");
  const heads = count("attention.head_count");
  const width = count("embedding_length");
  if (layers === null || heads === null || heads === 0 || width === null) return null;
  // A list of them, one per layer, is left out of the metadata: then all heads are counted, which is the most.
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

/** What a model can be asked for. */
export type ModelKind = "chat" | "embedding";

/** An embedding model pools its token vectors or is an encoder; every other one writes text. */
export function modelKind({ architecture, poolingType }: GgufHeader): ModelKind {
  const pools = poolingType !== null && poolingType >= 1 && poolingType <= 3;
  return pools || architecture.includes("bert") ? "embedding" : "chat";
}

/** Values of one key each. Arrays, and texts that nobody asked for, are checked and left out. */
export type Metadata = ReadonlyMap<string, string | number | boolean>;

const keyBytesMax = 65_535;
const textBytesMax = 16 * 1024 * 1024;
/** Strings of all arrays together. The largest vocabularies with their merges have less than a million. */
const arrayTextsMax = 2 * 1024 * 1024;

/** The texts that are kept; all others may be long and are of no use here. */
const keptTexts = new Set([
  "general.architecture",
  "general.name",
  "general.license",
  "tokenizer.ggml.model",
  "tokenizer.chat_template",
]);

const scalarBytes: ReadonlyMap<number, number> = new Map([
  [valueTypes.uint8, 1],
  [valueTypes.int8, 1],
  [valueTypes.bool, 1],
  [valueTypes.uint16, 2],
  [valueTypes.int16, 2],
  [valueTypes.uint32, 4],
  [valueTypes.int32, 4],
  [valueTypes.float32, 4],
  [valueTypes.uint64, 8],
  [valueTypes.int64, 8],
  [valueTypes.float64, 8],
]);

/** Reads `count` pairs of key and value. Throws ModelFileError. */
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
      kept.set(key, await readScalar(cursor, type));
    }
  }
  return kept;
}

/** Passes over an array and returns how many strings were in it. */
async function skipArray(cursor: FileCursor, textsMax: number): Promise<number> {
  const itemType = await cursor.uint32();
  const length = await cursor.uint64();
  if (itemType === valueTypes.string) {
    if (length > textsMax) throw malformedGguf(`its arrays hold more than ${arrayTextsMax} texts`);
    await cursor.skipTexts(length, textBytesMax);
    return length;
  }
  const itemBytes = scalarBytes.get(itemType);
  if (itemBytes === undefined) throw malformedGguf(`an array in it has items of the unknown type ${itemType}`);
  cursor.skip(length * itemBytes);
  return 0;
}

async function readScalar(cursor: FileCursor, type: number): Promise<number | boolean> {
  const bytes = scalarBytes.get(type);
  if (bytes === undefined) throw malformedGguf(`a value in it has the unknown type ${type}`);
  const view = await cursor.view(bytes);
  switch (type) {
    case valueTypes.bool:
      return view.getUint8(0) !== 0;
    case valueTypes.uint8:
      return view.getUint8(0);
    case valueTypes.int8:
      return view.getInt8(0);
    case valueTypes.uint16:
      return view.getUint16(0, true);
    case valueTypes.int16:
      return view.getInt16(0, true);
    case valueTypes.uint32:
      return view.getUint32(0, true);
    case valueTypes.int32:
      return view.getInt32(0, true);
    case valueTypes.uint64:
      return Number(view.getBigUint64(0, true));
    case valueTypes.int64:
      return Number(view.getBigInt64(0, true));
    case valueTypes.float32:
      return view.getFloat32(0, true);
    default:
      return view.getFloat64(0, true);
  }
}
