import { type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";

/** A field of a message that holds a time, to be spread into it; nothing for null: the field is absent then. */
export function optionalTime<K extends string>(field: K, atMs: number | null): { readonly [F in K]?: Timestamp } {
  const present: { [F in K]?: Timestamp } = {};
  if (atMs !== null) present[field] = timestampFromMs(atMs);
  return present;
}
