import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { readRules } from "../../../scripts/rules.js";
import { operationByRpcPath } from "../../../src/contract/operations.js";
import { isReal, namesIn } from "./names-in-text.js";

const pages = [
  "README.md",
  "SECURITY.md",
  "CONTRIBUTING.md",
  ...readdirSync("docs")
    .filter((file) => file.endsWith(".md"))
    .map((file) => `docs/${file}`),
];
/** Pages whose every name is looked up; those that are generated have tests of their own. */
const handWritten = [
  "docs/README.md",
  "docs/grpc.md",
  "docs/hardening.md",
  "docs/operations.md",
  "docs/threat-model.md",
];

const textOf = (page: string) => readFileSync(page, "utf8");
const settings = textOf("docs/config.md");
const metrics = textOf("docs/metrics.md");
const readme = textOf("README.md");

/** As GitHub makes them of headings. */
function anchorsOf(page: string): readonly string[] {
  return [...textOf(page).matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
    String(heading)
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, "")
      .replaceAll(" ", "-"),
  );
}

function isGoodLink(page: string, link: string): boolean {
  const [path = "", anchor] = link.split("#");
  const target = path === "" ? page : join(dirname(page), path);
  if (!existsSync(target)) return false;
  return anchor === undefined || anchorsOf(target).includes(anchor);
}

const rpcPackages = new Set(
  [...operationByRpcPath.keys()].flatMap((path) => {
    const [service = ""] = path.slice(1).split("/");
    return [service, service.slice(0, service.lastIndexOf("."))];
  }),
);

/** Whether a name of a page about our own things exists; names of other people's things are not looked at. */
function isKnown(name: string): boolean {
  if (/^uis [a-z]/.test(name)) return isCommand(name);
  if (/^uis_(?!session)[a-z_]+$/.test(name)) return metrics.includes(`\`${name}\``);
  if (/^UIS_[A-Z_]+$/.test(name)) return settings.includes(name.replace(/_FILE$/, "")) || isReal(name);
  if (/^(server|state|limits|grpc|webhooks|engine|sse|rate_limits)\.[a-z_.]+$/.test(name)) {
    return settings.includes(`| \`${name}`);
  }
  if (/^unified\.[a-z]+\.v1/.test(name)) return rpcPackages.has(name);
  if (/^(src|docs|deploy|proto|test)\//.test(name)) return isReal(name);
  return true;
}

/** The words of a command up to its first argument stand in the README's table. */
function isCommand(name: string): boolean {
  const [, group = "", verb] = /^uis ([a-z]+)(?: ([a-z]+))?/.exec(name) ?? [];
  const rows = readme.split("\n").filter((line) => line.includes(`\`uis ${group}`));
  return (
    rows.some((row) => verb === undefined || row.includes(verb)) ||
    textOf("docs/webhooks.md").includes(`uis ${group} ${verb}`)
  );
}

describe.each(pages)("%s", (page) => {
  it("links only to what exists", () => {
    const links = [...textOf(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link]) => String(link));
    const own = links.filter((link) => !/^[a-z]+:/.test(link));
    expect(own.filter((link) => !isGoodLink(page, link))).toEqual([]);
  });
});

describe.each(handWritten)("%s", (page) => {
  it("names only settings, variables, metrics, commands, services and files that exist", () => {
    const names = namesIn(textOf(page));
    expect(names.filter((name) => !isKnown(name))).toEqual([]);
  });
});

describe("docs/README.md", () => {
  it("names every page", () => {
    const index = textOf("docs/README.md");
    const others = pages.filter((page) => page.startsWith("docs/") && page !== "docs/README.md");
    expect(others.filter((page) => !index.includes(`(${page.slice("docs/".length)})`))).toEqual([]);
  });
});

describe("docs/threat-model.md", () => {
  it("cites only rules that exist", () => {
    const known = new Set(readRules("docs/rules").map(({ id }) => id));
    const cited = [...textOf("docs/threat-model.md").matchAll(/\b[A-Z]{2,5}-\d+\b/g)].map(([id]) => id);
    expect(cited.length).toBeGreaterThan(10);
    expect(cited.filter((id) => !known.has(id))).toEqual([]);
  });
});

describe("docs/hardening.md", () => {
  it.each([
    ["nginx", "deploy/proxy/nginx.conf"],
    ["haproxy", "deploy/proxy/haproxy.cfg"],
  ])("shows lines of the whole example for %s", (language, file) => {
    const [, example = ""] =
      new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, "m").exec(textOf("docs/hardening.md")) ?? [];
    const whole = textOf(file)
      .split("\n")
      .map((line) => line.trim());
    const shown = example.split("\n").map((line) => line.trim());
    expect(shown.filter((line) => !whole.includes(line))).toEqual([]);
  });
});

describe("the check of names", () => {
  it("is not fooled", () => {
    const unreal = [
      "uis wish",
      "uis_wishes_total",
      "UIS_WISH",
      "limits.wishes_max",
      "unified.wish.v1.WishService",
      "deploy/wish.yaml",
    ];
    expect(unreal.filter(isKnown)).toEqual([]);
  });
});
