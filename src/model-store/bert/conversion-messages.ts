import type { WrittenFile } from "../gguf/gguf-writer.js";
import type { ModelFileFault } from "../model-errors.js";

/** What the thread of a conversion says, once, at its end. */
export type ConversionOutcome =
  | { readonly kind: "written"; readonly file: WrittenFile }
  /** `fault` is null for an error that is no ModelFileError; `code` is that of a system error. */
  | {
      readonly kind: "failed";
      readonly fault: ModelFileFault | null;
      readonly code: string | null;
      readonly message: string;
    };
