import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { ModelFileError } from "../files/model-files.js";
import { fromHalf } from "../gguf/format.js";

/** Maximum bytes of the header, which is JSON. A header of 10,000 tensors takes one MiB. */
const headerBytesMax = 16 * 1024 * 1024;
const dimsMax = 8;

interface Entry {
  dtype: "F32" | "F16";
  shape: readonly number[];
  start: number;
  end: number;
}

/**
 * An open safetensors file. It has a length, a JSON header with the offsets of each tensor, and the tensors. The header is
 * checked before tensors are read. Reads synchronously, so it must be used in a worker thread.
 */
export class SafetensorsFile {
  readonly #file: number;
  readonly #entries: ReadonlyMap<string, Entry>;

  private constructor(file: number, entries: ReadonlyMap<string, Entry>) {
    this.#file = file;
    this.#entries = entries;
  }

  /** Opens a file, which the caller closes. Throws ModelFileError if the header is not valid. */
  static open(path: string): SafetensorsFile {
    const file = openSync(path, "r");
    try {
      return new SafetensorsFile(file, readEntries(file));
    } catch (error) {
      closeSync(file);
      throw error;
    }
  }

  /** The tensor's dimensions, outermost first. */
  shape(name: string): readonly number[] {
    return this.#entry(name).shape;
  }

  values(name: string): Float32Array {
    const { dtype, start, end } = this.#entry(name);
    const bytes = readAt(this.#file, start, end - start);
    if (dtype === "F32") return new Float32Array(bytes.buffer);
    return Float32Array.from(new Uint16Array(bytes.buffer), fromHalf);
  }

  close(): void {
    closeSync(this.#file);
  }

  #entry(name: string): Entry {
    const entry = this.#entries.get(name);
    if (!entry) throw new ModelFileError("unsupported", `the weights have no tensor ${name}: not a plain BERT encoder`);
    return entry;
  }
}

function readEntries(file: number): ReadonlyMap<string, Entry> {
  const fileBytes = fstatSync(file).size;
  if (fileBytes < 8) throw malformed("shorter than its own header");
  const headerBytes = Number(new DataView(readAt(file, 0, 8).buffer).getBigUint64(0, true));
  if (headerBytes > Math.min(headerBytesMax, fileBytes - 8)) {
    throw malformed(`its header claims ${headerBytes} bytes; the limit is ${headerBytesMax} and the end of the file`);
  }
  const header: unknown = parseHeader(Buffer.from(readAt(file, 8, headerBytes)).toString("utf8"));
  if (!isObject(header)) throw malformed("its header is not a JSON object");
  const dataStart = 8 + headerBytes;
  const entries = new Map<string, Entry>();
  for (const [name, value] of Object.entries(header)) {
    if (name !== "__metadata__" && isUsed(value)) entries.set(name, toEntry(name, value, dataStart, fileBytes));
  }
  return entries;
}

function parseHeader(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw malformed("its header is not JSON", { cause });
  }
}

/** Whether the converter needs a tensor. Tensors of integers are tables that it does not need, such as position ids. */
function isUsed(value: unknown): value is Record<string, unknown> {
  return isObject(value) && !/^(I|U)\d+$|^BOOL$/.test(String(value["dtype"]));
}

function toEntry(name: string, value: Record<string, unknown>, dataStart: number, fileBytes: number): Entry {
  const { dtype, shape, data_offsets: offsets } = value;
  if (dtype !== "F32" && dtype !== "F16") {
    throw new ModelFileError("unsupported", `tensor ${name} is of type ${String(dtype)}; F32 and F16 can be converted`);
  }
  if (!isIntegers(shape) || shape.length > dimsMax || !isIntegers(offsets) || offsets.length !== 2) {
    throw malformed(`tensor ${name} has an invalid shape or offset`);
  }
  const start = dataStart + (offsets[0] ?? 0);
  const end = dataStart + (offsets[1] ?? 0);
  const bytes = shape.reduce((product, dim) => product * dim, dtype === "F32" ? 4 : 2);
  if (end > fileBytes || end - start !== bytes) {
    throw malformed(`tensor ${name} should take ${bytes} bytes at ${start} of ${fileBytes}, but ends at ${end}`);
  }
  return { dtype, shape, start, end };
}

function readAt(file: number, position: number, length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  let filled = 0;
  while (filled < length) {
    const count = readSync(file, bytes, filled, length - filled, position + filled);
    if (count === 0) throw malformed("it became shorter while it was read");
    filled += count;
  }
  return bytes;
}

function isIntegers(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((item) => Number.isSafeInteger(item) && item >= 0);
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function malformed(why: string, options?: ErrorOptions): ModelFileError {
  return new ModelFileError("malformed", `this is not a valid safetensors file: ${why}. Fetch it again`, options);
}
