import { crc32 } from "node:zlib";

/**
 * One line of an append-only file with a checksum: `<bytes> <crc32> <text>`. The text has no line
 * break. A torn write, a block of zeros or an edited line fails the check, and the lines around it stay readable.
 */
export function toCheckedLine(text: string): string {
  return `${Buffer.byteLength(text)} ${checksumOf(text)} ${text}\n`;
}

/** The text of a line (without its break); null when the line is damaged. */
export function fromCheckedLine(line: string): string | null {
  const [, bytes, checksum, text] = lineForm.exec(line) ?? [];
  if (text === undefined || Buffer.byteLength(text) !== Number(bytes)) return null;
  return checksumOf(text) === checksum ? text : null;
}

const lineForm = /^(\d{1,10}) ([0-9a-f]{8}) (.*)$/s;

function checksumOf(text: string): string {
  return crc32(text).toString(16).padStart(8, "0");
}
