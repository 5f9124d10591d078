import { type FileCursor, malformedGguf } from "./file-cursor.js";
import { valueTypes } from "./format.js";

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
export async function readMetadata(cursor: FileCursor, count: number): Promise<Metadata> {
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
