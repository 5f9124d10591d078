import { type FileHandle, open } from "node:fs/promises";
import { FileCursor, malformedGguf } from "./file-cursor.js";
import { defaultAlignment, ggufMagic } from "./format.js";
import { type Metadata, readMetadata } from "./read-metadata.js";
import { type AnnouncedTensor, readTensors } from "./read-tensors.js";

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
