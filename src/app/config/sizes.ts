const unitBytes = { GiB: 1024 ** 3, MiB: 1024 ** 2, KiB: 1024 } as const;

type Unit = keyof typeof unitBytes;

/** What a size with a unit looks like. A bare whole number is bytes. Published in the JSON Schema. */
export const sizePattern = /^(0|[1-9][0-9]{0,11})(KiB|MiB|GiB)$/;

/** Bytes of `64KiB`, `20MiB` or `1GiB`; null when the text is none of these. */
export function parseSize(text: string): number | null {
  const match = sizePattern.exec(text);
  if (match === null) return null;
  return Number(match[1]) * unitBytes[match[2] as Unit];
}

/** The size with the largest unit that keeps it whole; bytes as a number when none does. */
export function formatSize(bytes: number): string | number {
  for (const [unit, size] of Object.entries(unitBytes)) {
    if (bytes >= size && bytes % size === 0) return `${bytes / size}${unit}`;
  }
  return bytes;
}
