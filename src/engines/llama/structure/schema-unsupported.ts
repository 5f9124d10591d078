/** A JSON Schema that cannot be turned into a grammar. The message is public: it names the place, the cause and the fix. */
export class SchemaUnsupported extends Error {
  override readonly name = "SchemaUnsupported";
  /** JSON pointer to the schema inside the document that was given; empty for the whole of it. */
  readonly path: string;

  constructor(path: string, why: string) {
    super(`The JSON Schema ${path === "" ? "" : `at '${shortened(path)}' `}cannot be used: ${why}`);
    this.path = path;
  }
}

const pathCharsShown = 200;

function shortened(path: string): string {
  return path.length <= pathCharsShown ? path : `${path.slice(0, pathCharsShown)}…`;
}
