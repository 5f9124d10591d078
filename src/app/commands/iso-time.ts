import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";

/** ISO 8601 in UTC, as every JSON answer has times; null for none. */
export function isoTime(time: Timestamp | undefined): string | null {
  return time === undefined ? null : timestampDate(time).toISOString();
}
