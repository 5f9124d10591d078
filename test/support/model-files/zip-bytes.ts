import { crc32 } from "../../../src/lib/crypto.js";

/** A zip file with uncompressed members. */
export function zipBytes(members: Readonly<Record<string, Uint8Array>>): Buffer {
  const locals: Buffer[] = [];
  const centrals: Buffer[] = [];
  let offset = 0;
  for (const [name, content] of Object.entries(members)) {
    const fields = fieldsOf(name, content);
    const local = Buffer.concat([uint32(0x04034b50), uint16(20), fields, Buffer.from(name), content]);
    const place = Buffer.concat([uint16(0), uint16(0), uint16(0), uint32(0), uint32(offset)]);
    centrals.push(Buffer.concat([uint32(0x02014b50), uint16(20), uint16(20), fields, place, Buffer.from(name)]));
    locals.push(local);
    offset += local.length;
  }
  const central = Buffer.concat(centrals);
  const count = centrals.length;
  const end = [uint32(0x06054b50), uint16(0), uint16(0), uint16(count), uint16(count), uint32(central.length)];
  return Buffer.concat([...locals, central, ...end, uint32(offset), uint16(0)]);
}

/** Flags, method, time, date, checksum, both sizes, lengths of name and extra field: the same in both headers. */
function fieldsOf(name: string, content: Uint8Array): Buffer {
  const size = uint32(content.length);
  const shared = [uint16(0), uint16(0), uint16(0), uint16(0x21), uint32(crc32(content)), size, size];
  return Buffer.concat([...shared, uint16(Buffer.byteLength(name)), uint16(0)]);
}

function uint16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value >>> 0);
  return bytes;
}
