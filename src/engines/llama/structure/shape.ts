import type { NumberRange } from "./number-grammar.js";
import type { Schema, SchemaDocument } from "./schema-document.js";
import type { StringFormat } from "./string-grammar.js";

/** A place of a document, with every shape that a value there may have. None: no value fits. */
export interface Place {
  shapes: readonly Shape[];
}

/** What a grammar says about one kind of value. */
export type Shape =
  | { readonly kind: "any" | "null" | "boolean" }
  | { readonly kind: "values"; readonly values: readonly unknown[] }
  | { readonly kind: "integer" | "number"; readonly range: NumberRange | null }
  | StringShape
  | ArrayShape
  | ObjectShape;

export interface StringShape {
  readonly kind: "string";
  readonly minLength: number;
  readonly maxLength: number | null;
  readonly format: StringFormat | null;
}

export interface ArrayShape {
  readonly kind: "array";
  /** Places of the first items. */
  readonly prefix: readonly Place[];
  /** Place of all further items. */
  readonly items: Place;
  readonly minItems: number;
  readonly maxItems: number | null;
}

export interface ObjectShape {
  readonly kind: "object";
  readonly properties: readonly PropertyShape[];
  /** Place of properties that are not listed; null: there are none. */
  readonly extra: Place | null;
  /** At least one property, whichever. */
  readonly notEmpty: boolean;
  /** Only where no property is listed. */
  readonly maxProperties: number | null;
}

export interface PropertyShape {
  readonly name: string;
  readonly place: Place;
  readonly required: boolean;
}

/** What the readers of the single types share. */
export interface ReadContext {
  readonly document: SchemaDocument;
  readonly placeOf: (schemas: readonly Schema[]) => Place;
  /** Sets elements of a grammar aside for a repetition; false: there are not that many left. */
  readonly reserve: (elements: number) => boolean;
}
