import type { Metadata } from "@grpc/grpc-js";

/** What HTTP/2 adds per entry when it measures a header list (RFC 9113, section 6.5.2). */
const entryOverheadBytes = 32;

/** Size of the metadata as an HTTP/2 header list. Pseudo headers and those that grpc-js keeps for itself do not count. */
export function metadataBytes(metadata: Metadata): number {
  let bytes = 0;
  for (const name of Object.keys(metadata.getMap())) {
    for (const value of metadata.get(name)) {
      bytes += entryOverheadBytes + name.length + encodedLength(value);
    }
  }
  return bytes;
}

/** Values of `-bin` entries travel as base64. */
function encodedLength(value: string | Buffer): number {
  return typeof value === "string" ? value.length : Math.ceil(value.length / 3) * 4;
}
