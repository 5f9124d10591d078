import type { Schema, SchemaDocument } from "./schema-document.js";
import type { Place } from "./shape.js";

/** What the readers of the single types share. */
export interface ReadContext {
  readonly document: SchemaDocument;
  readonly placeOf: (schemas: readonly Schema[]) => Place;
  /** Sets elements of a grammar aside for a repetition; false: there are not that many left. */
  readonly reserve: (elements: number) => boolean;
}
