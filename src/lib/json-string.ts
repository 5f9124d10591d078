/** What JSON writes in another way than it is, and what is not ASCII. */
const notPlain = /[^ !#-[\]-~]/;

/** Whether a text is ASCII that stands between quotes as it is. */
export function isPlain(text: string): boolean {
  return !notPlain.test(text);
}

/** A text as a JSON string. Plain ASCII is put between quotes: looking at it takes a third of the time of JSON.stringify. */
export function jsonString(text: string): string {
  return isPlain(text) ? `"${text}"` : JSON.stringify(text);
}
