import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { WireType } from "@bufbuild/protobuf/wire";
import type { ServiceLimits } from "../../contract/limits.js";
import { ServiceError } from "../call/service-error.js";

/**
 * Rejects an encoded message that would decode into too many objects. It bounds the nesting and the number of fields,
 * messages and list elements, with nearly the same count as for the same request in JSON. Malformed bytes are left to the
 * decoder.
 */
export function checkMessageBounds(
  desc: DescMessage,
  bytes: Uint8Array,
  limits: Pick<ServiceLimits, "jsonDepthMax" | "jsonTokensMax">,
): void {
  // Most messages are too short to exceed a bound: each value takes at least one byte, each level of nesting at least two.
  if (bytes.length < limits.jsonDepthMax) return;
  const scan = new MessageScan(bytes, limits.jsonDepthMax, limits.jsonTokensMax);
  scan.message(layoutOf(desc), bytes.length, 1);
  if (scan.fault === "too_deep") {
    throw new ServiceError("invalid_value", `The message is nested deeper than ${limits.jsonDepthMax} levels.`);
  }
  if (scan.fault === "too_many_values") {
    throw new ServiceError("invalid_value", `The message has more than ${limits.jsonTokensMax} values and fields.`);
  }
}

/** Shape of a field: the layout of its message, or the width of a packed element. */
type FieldShape = Layout | number;

interface Layout {
  readonly fields: ReadonlyMap<number, FieldShape>;
}

const layouts = new WeakMap<DescMessage, Layout>();

function layoutOf(desc: DescMessage): Layout {
  const known = layouts.get(desc);
  if (known !== undefined) return known;
  const fields = new Map<number, FieldShape>();
  const layout = { fields };
  // Stored before its fields are visited, because message types can be recursive.
  layouts.set(desc, layout);
  for (const field of desc.fields) {
    const shape = shapeOf(field);
    if (shape !== null) fields.set(field.number, shape);
  }
  return layout;
}

/** Bytes per element of a packed list; 0 for varints. Lists of strings or bytes are never packed. */
const packedWidths: Partial<Record<ScalarType, number>> = {
  [ScalarType.DOUBLE]: 8,
  [ScalarType.FIXED64]: 8,
  [ScalarType.SFIXED64]: 8,
  [ScalarType.FLOAT]: 4,
  [ScalarType.FIXED32]: 4,
  [ScalarType.SFIXED32]: 4,
};

/** Shape of a field; null for a field that counts as one value, whatever its length. */
function shapeOf(field: DescField): FieldShape | null {
  if (field.fieldKind === "map") {
    return { fields: new Map(field.message === undefined ? [] : [[2, layoutOf(field.message)]]) };
  }
  if (field.message !== undefined) return layoutOf(field.message);
  if (field.fieldKind !== "list" || field.scalar === ScalarType.STRING || field.scalar === ScalarType.BYTES)
    return null;
  return (field.scalar && packedWidths[field.scalar]) ?? 0;
}

/** Layout of an unknown field. */
const unknownLayout: Layout = { fields: new Map() };

/** One pass over the wire format without allocations. Stops at the first fault and at malformed bytes. */
class MessageScan {
  fault: "too_deep" | "too_many_values" | "malformed" | null = null;
  readonly #bytes: Uint8Array;
  readonly #depthMax: number;
  #valuesLeft: number;
  #at = 0;

  constructor(bytes: Uint8Array, depthMax: number, valuesMax: number) {
    this.#bytes = bytes;
    this.#depthMax = depthMax;
    this.#valuesLeft = valuesMax;
  }

  /** Scans a message up to `end`, or a group up to its end tag. */
  message(layout: Layout, end: number, depth: number): void {
    if (depth > this.#depthMax) {
      this.fault = "too_deep";
      return;
    }
    this.#count(1);
    while (this.#at < end && this.fault === null) {
      const tag = this.#varint();
      this.#count(1);
      if ((tag & 7) === WireType.EndGroup) return;
      this.#field(layout.fields.get(tag >>> 3), tag & 7, end, depth);
    }
  }

  #field(shape: FieldShape | undefined, wireType: number, end: number, depth: number): void {
    switch (wireType) {
      case WireType.Varint:
        this.#varint();
        return;
      case WireType.Bit64:
        this.#at += 8;
        return;
      case WireType.Bit32:
        this.#at += 4;
        return;
      case WireType.StartGroup:
        this.message(unknownLayout, end, depth + 1);
        return;
      case WireType.LengthDelimited:
        this.#delimited(shape, end, depth);
        return;
      default:
        this.fault = "malformed";
    }
  }

  #delimited(shape: FieldShape | undefined, end: number, depth: number): void {
    const length = this.#varint();
    const fieldEnd = this.#at + length;
    if (fieldEnd > end) this.fault ??= "malformed";
    if (this.fault !== null) return;
    if (typeof shape === "number") this.#packed(shape, fieldEnd);
    else if (shape !== undefined) this.message(shape, fieldEnd, depth + 1);
    this.#at = fieldEnd;
  }

  #packed(width: number, end: number): void {
    if (width > 0) {
      this.#count(Math.floor((end - this.#at) / width));
      return;
    }
    let count = 0;
    for (let at = this.#at; at < end && count <= this.#valuesLeft; at += 1) {
      if ((this.#bytes[at] ?? 0) < 0x80) count += 1;
    }
    this.#count(count);
  }

  /** Reads a varint. The result is exact up to 32 bits, the size of tags and lengths; the rest of longer values is skipped. */
  #varint(): number {
    let value = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = this.#bytes[this.#at];
      if (byte === undefined) break;
      this.#at += 1;
      if (shift < 35) value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value >>> 0;
    }
    this.fault ??= "malformed";
    return 0;
  }

  #count(values: number): void {
    this.#valuesLeft -= values;
    if (this.#valuesLeft < 0) this.fault ??= "too_many_values";
  }
}
