/** Vectors as the contract carries them. */

/** Of base64 of little-endian float32. */
export function vectorOf(base64: string): readonly number[] {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Array.from({ length: Math.floor(bytes.length / 4) }, (_none, index) => view.getFloat32(index * 4, true));
}

/** 1: the same direction, 0: nothing in common, -1: opposite. */
export function similarity(a: readonly number[], b: readonly number[]): number {
  const dot = (x: readonly number[], y: readonly number[]): number =>
    x.reduce((sum, value, index) => sum + value * (y[index] ?? 0), 0);
  const size = Math.sqrt(dot(a, a) * dot(b, b));
  return size === 0 ? 0 : dot(a, b) / size;
}
