/** Lines below `Examples:` of a command's help, as they are typed. */
export function examplesOfHelp(help: string): readonly string[] {
  const [, examples = ""] = help.split("\nExamples:\n");
  return examples
    .trimEnd()
    .split("\n")
    .map((line) => line.replace(/^ {2}\$ /, ""));
}

/** Lines of a page's code that call `uis`. */
export function commandsOfPage(markdown: string): readonly string[] {
  const code = [...markdown.matchAll(/^```\w*\n(.*?)^```/gms)].flatMap(([, text = ""]) => text.split("\n"));
  return code.filter((line) => /^(?:[A-Z_]+=\S+ )*(?:npx )?uis /.test(line));
}

/** The words after `uis` of a shell line, without prefixes, comments, pipes and redirections. */
export function wordsAfterUis(line: string): readonly string[] {
  const [, rest = ""] = /(?:^|\s)uis (.*)$/.exec(line) ?? [];
  const words = [...rest.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, double, single, bare]) => ({
    text: double ?? single ?? bare ?? "",
    ends: bare !== undefined && /^(#|[<>|&])/.test(bare),
  }));
  const end = words.findIndex(({ ends }) => ends);
  return words.slice(0, end === -1 ? undefined : end).map(({ text }) => text);
}
