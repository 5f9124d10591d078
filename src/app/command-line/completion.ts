import type { Command } from "commander";
import { type CliIo, print } from "./cli-io.js";

type Shell = "bash" | "zsh" | "fish";

/** The command `uis completion SHELL`. */
export function printCompletion(program: Command) {
  return (io: CliIo, shell: Shell, options: { readonly json?: boolean }): void => {
    const script = completionScript(program, shell);
    print(io, options, { shell, script }, script.trimEnd());
  };
}

/** A script that completes the commands, options and fixed values of `uis` in a shell. */
export function completionScript(program: Command, shell: Shell): string {
  const places = placesOf(program, []);
  const write = { bash: bashScript, zsh: zshScript, fish: fishScript }[shell];
  return `${write(places)}\n`;
}

interface Word {
  readonly name: string;
  readonly description: string;
}

/** Values of an option or an argument: fixed words, or names of files. */
interface Values {
  readonly choices: readonly string[];
  readonly isFile: boolean;
}

interface OptionWord extends Word {
  /** Values of the option; null: it has none. */
  readonly values: Values | null;
}

/** A command or a group of commands, with the words that may follow its name. */
interface Place {
  /** `keys create`; empty for the program itself. */
  readonly path: string;
  readonly commands: readonly Word[];
  readonly options: readonly OptionWord[];
  readonly values: Values;
}

function placesOf(command: Command, names: readonly string[]): readonly Place[] {
  const options = command.options.map(({ long, description, argChoices, flags, required, optional }) => ({
    name: long ?? flags,
    description: oneLine(description),
    values: required || optional ? { choices: argChoices ?? [], isFile: isFile(flags) } : null,
  }));
  const place: Place = {
    path: names.join(" "),
    commands: command.commands.map((one) => ({
      name: one.name(),
      description: oneLine(one.summary() || one.description()),
    })),
    options: [...options, { name: "--help", description: "display help for command", values: null }],
    values: {
      choices: command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []),
      isFile: command.registeredArguments.some((argument) => isFile(`<${argument.name()}>`)),
    },
  };
  return [place, ...command.commands.flatMap((one) => placesOf(one, [...names, one.name()]))];
}

function isFile(flags: string): boolean {
  return /<([\w-]*-)?(file|folder)>/.test(flags);
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}

/** One word in single quotes; `quoteMark` stands for a quote inside it. */
function quoted(text: string, quoteMark = "'\\''"): string {
  return `'${text.replaceAll("'", quoteMark)}'`;
}

/** Patterns of a `case` that walks along the names of commands: `' keys'|'keys create'`. */
function stepsOf(places: readonly Place[], separator: string): string {
  const paths = places.filter(({ path }) => path !== "").map(({ path }) => (path.includes(" ") ? path : ` ${path}`));
  return paths.map((path) => quoted(path)).join(separator);
}

/** Cases of a shell script: patterns of options such as `'keys create:--scope'`, and the action that completes their values. */
function optionCases(places: readonly Place[], actionOf: (values: Values) => string): readonly string[] {
  const patterns = new Map<string, string[]>();
  for (const { path, options } of places) {
    for (const { name, values } of options) {
      if (values === null) continue;
      const action = actionOf(values);
      patterns.set(action, [...(patterns.get(action) ?? []), quoted(`${path}:${name}`)]);
    }
  }
  return [...patterns].map(([action, names]) => `    ${names.join("|")}) ${action} ;;`);
}

function bashScript(places: readonly Place[]): string {
  const actionOf = ({ choices, isFile: takesFile }: Values) => {
    if (choices.length > 0) return `COMPREPLY=($(compgen -W ${quoted(choices.join(" "))} -- "$current")); return`;
    return takesFile ? 'COMPREPLY=($(compgen -f -- "$current")); return' : "return";
  };
  const cases = places.map(({ path, commands, options, values }) => {
    const words = [...commands.map(({ name }) => name), ...values.choices].join(" ");
    const flags = options.map(({ name }) => name).join(" ");
    const files = values.isFile ? " files=1" : "";
    return `    ${quoted(path)}) words=${quoted(words)} options=${quoted(flags)}${files} ;;`;
  });
  return `# Completion of uis for bash. Load it with: source <(uis completion bash)
_uis() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]}
  local at="" words="" options="" files="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at \${COMP_WORDS[i]}" in
      ${stepsOf(places, "|")}) at="\${at:+$at }\${COMP_WORDS[i]}" ;;
    esac
  done
  COMPREPLY=()
  case "$at:$previous" in
${optionCases(places, actionOf).join("\n")}
  esac
  case "$at" in
${cases.join("\n")}
  esac
  if [[ $current == -* ]]; then words=$options files=""; fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [[ -n $files ]]; then COMPREPLY+=($(compgen -f -- "$current")); fi
}
complete -o filenames -F _uis uis`;
}

function zshScript(places: readonly Place[]): string {
  const actionOf = ({ choices, isFile: takesFile }: Values) => {
    if (choices.length > 0) return `compadd -- ${choices.map((choice) => quoted(choice)).join(" ")}; return`;
    return takesFile ? "_files; return" : "return";
  };
  const described = (words: readonly Word[]) =>
    words.map(({ name, description }) => quoted(`${name}:${description}`)).join(" ");
  const cases = places.map(({ path, commands, options, values }) => {
    const words = [...commands, ...values.choices.map((name) => ({ name, description: "" }))];
    const files = values.isFile ? " files=1" : "";
    return `    ${quoted(path)}) words_here=(${described(words)}) options_here=(${described(options)})${files} ;;`;
  });
  return `#compdef uis
# Completion of uis for zsh. Load it with: source <(uis completion zsh)
_uis() {
  local at="" files="" word
  local -a words_here options_here
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$at $word" in
      ${stepsOf(places, "|")}) at="\${at:+$at }$word" ;;
    esac
  done
  case "$at:\${words[CURRENT-1]}" in
${optionCases(places, actionOf).join("\n")}
  esac
  case "$at" in
${cases.join("\n")}
  esac
  if [[ $PREFIX == -* ]]; then
    _describe -o option options_here
    return
  fi
  (( $#words_here )) && _describe command words_here
  [[ -n $files ]] && _files
}
if [[ $funcstack[1] == _uis ]]; then _uis "$@"; else compdef _uis uis; fi`;
}

function fishScript(places: readonly Place[]): string {
  const text = (value: string) => quoted(value.replaceAll("\\", "\\\\"), "\\'");
  const lines = places.flatMap(({ path, commands, options, values }) => {
    const here = `complete -c uis -n ${text(`__uis_at ${path}`.trim())}`;
    const choices = values.choices.length === 0 ? [] : [`${here} -a ${text(values.choices.join(" "))}`];
    return [
      ...commands.map(({ name, description }) => `${here} -a ${name} -d ${text(description)}`),
      ...choices,
      ...(values.isFile ? [`${here} -F`] : []),
      ...options.map(({ name, description, values: ofOption }) => {
        const flag = `${here} -l ${name.replace(/^--/, "")} -d ${text(description)}`;
        if (ofOption === null) return flag;
        if (ofOption.choices.length > 0) return `${flag} -x -a ${text(ofOption.choices.join(" "))}`;
        return `${flag} ${ofOption.isFile ? "-r -F" : "-x"}`;
      }),
    ];
  });
  return `# Completion of uis for fish. Load it with: uis completion fish | source
function __uis_at
    set -l at ""
    for word in (commandline -opc)[2..-1]
        switch "$at $word"
            case ${stepsOf(places, " ")}
                set at (string trim "$at $word")
        end
    end
    test "$at" = "$argv"
end
complete -c uis -f
${lines.join("\n")}`;
}
