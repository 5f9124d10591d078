import type { ModelSource } from "./source.js";

/** What a source calls its model: the last part of its file, repository or package. */
export function nameOfSource(source: ModelSource): string {
  switch (source.kind) {
    case "hub":
      return lastSegment(source.path ?? source.repository);
    case "https":
      return lastSegment(new URL(source.url).pathname);
    case "pypi":
      return source.member.endsWith(".gguf") ? lastSegment(source.member) : source.name;
    case "file":
      return lastSegment(source.path);
  }
}

function lastSegment(path: string): string {
  return (
    path
      .split(/[\\/]/)
      .filter((segment) => segment !== "")
      .at(-1) ?? ""
  );
}
