import { type FileCursor, malformedGguf } from "./file-cursor.js";
import { tensorTypes } from "./format.js";

/** One tensor as the header announces it. */
export interface AnnouncedTensor {
  name: string;
  values: number;
  bytes: number;
  /** From the start of the data section. */
  offset: number;
}

const nameBytesMax = 63;
const dimsMax = 4;

/** Reads the announcements of `count` tensors and checks each by itself. Throws ModelFileError. */
export async function readTensors(cursor: FileCursor, count: number): Promise<AnnouncedTensor[]> {
  const tensors: AnnouncedTensor[] = [];
  const names = new Set<string>();
  for (let index = 0; index < count; index += 1) {
    const tensor = await readTensor(cursor);
    if (names.has(tensor.name)) throw malformedGguf(`it has the tensor ${JSON.stringify(tensor.name)} twice`);
    names.add(tensor.name);
    tensors.push(tensor);
  }
  return tensors;
}

async function readTensor(cursor: FileCursor): Promise<AnnouncedTensor> {
  const name = await cursor.text(nameBytesMax);
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
