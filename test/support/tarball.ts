import { gzipSync } from "node:zlib";

/** A member of a tar archive. */
export interface TarMember {
  readonly name: string;
  readonly content?: string;
  /** Type flag; default: "0", a file. */
  readonly type?: string;
}

function headerOf({ name, content = "", type = "0" }: TarMember): Buffer {
  const header = Buffer.alloc(512);
  header.write(name, 0);
  header.write("0000644\0", 100);
  header.write(`${Buffer.byteLength(content).toString(8).padStart(11, "0")}\0`, 124);
  header.write("        ", 148);
  header.write(type, 156);
  header.write("ustar\0", 257);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return header;
}

/** A tar archive, uncompressed. */
export function tar(members: readonly TarMember[]): Buffer {
  const blocks = members.flatMap((member) => {
    const content = Buffer.from(member.content ?? "");
    return [headerOf(member), content, Buffer.alloc((512 - (content.length % 512)) % 512)];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

/** A tar archive, compressed with gzip like npm's packages. */
export function tarball(members: readonly TarMember[]): Buffer {
  return gzipSync(tar(members));
}
