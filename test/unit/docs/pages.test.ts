import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { readRules } from "../../../scripts/rules.js";
import { operationByRpcPath } from "../../../src/contract/operations.js";
import { defaultChatModels } from "../../../src/model-store/default-models.js";
import { hasCommand } from "../../support/command-line.js";
import { isGoodLink, ownLinks, pages, unnamedPictures } from "./links.js";
import { isReal, namesIn } from "./names-in-text.js";

/** Pages whose names are all checked; generated pages have their own tests. */
const handWritten = [
  "README.md",
  "docs/README.md",
  "docs/agents.md",
  "docs/alerts.md",
  "docs/dashboard.md",
  "docs/failures.md",
  "docs/gpus.md",
  "docs/grpc.md",
  "docs/hardening.md",
  "docs/limits.md",
  "docs/models.md",
  "docs/operations.md",
  "docs/state.md",
  "docs/threat-model.md",
  "docs/troubleshooting.md",
  "docs/upstreams.md",
  "docs/use-it-with.md",
];

const textOf = (page: string) => readFileSync(page, "utf8");
const settings = textOf("docs/config.md");
const metrics = textOf("docs/metrics.md");

const rpcPackages = new Set(
  [...operationByRpcPath.keys()].flatMap((path) => {
    const [service = ""] = path.slice(1).split("/");
    return [service, service.slice(0, service.lastIndexOf("."))];
  }),
);

/** Whether a name of this service exists. Names of other products are not checked and count as existing. */
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

/** Whether `uis keys create --name …` is a command: the words up to the first option or argument. */
function isCommand(name: string): boolean {
  const [, ...words] = name.split(" ");
  const end = words.findIndex((word) => !/^[a-z]+$/.test(word));
  return hasCommand(end < 0 ? words : words.slice(0, end));
}

describe.each(pages)("%s", (page) => {
  const text = textOf(page);

  it("links only to existing targets", () => {
    expect(ownLinks(text).filter((link) => !isGoodLink(page, link))).toEqual([]);
  });

  it("describes its pictures in text", () => {
    expect(unnamedPictures(text)).toEqual([]);
  });
});

describe.each(handWritten)("%s", (page) => {
  it("names only settings, variables, metrics, commands, services and files that exist", () => {
    const names = namesIn(textOf(page));
    expect(names.filter((name) => !isKnown(name))).toEqual([]);
  });
});

describe.each(["README.md", "docs/grpc.md"])("%s", (page) => {
  it("uses the default chat model of a first start in its examples", () => {
    const examples = [...textOf(page).matchAll(/^```[\s\S]*?^```$/gm)].join("\n");
    const asked = [...examples.matchAll(/\bmodel"?[:=] ?"([^"]+)"|UIS_MODEL\W+"([^"]+)"/g)].map(
      (one) => one[1] ?? one[2],
    );
    expect(asked.length).toBeGreaterThan(1);
    expect(new Set(asked)).toEqual(new Set([defaultChatModels[0]?.id]));
  });
});

describe("docs/README.md", () => {
  it("names every page", () => {
    const index = textOf("docs/README.md");
    const others = pages.filter((page) => /^docs\/[^/]+$/.test(page) && page !== "docs/README.md");
    expect(others.filter((page) => !index.includes(`(${page.slice("docs/".length)})`))).toEqual([]);
  });
});

describe("docs/agents.md", () => {
  it.each([
    ["codex", "@openai/codex", "Codex"],
    ["claude-code", "@anthropic-ai/claude-code", "Claude Code"],
  ])("names the version of %s that the tests use", (folder, name, title) => {
    const { dependencies } = JSON.parse(textOf(`test/conformance/agents/${folder}/package.json`)) as {
      dependencies: Record<string, string>;
    };
    expect(textOf("docs/agents.md")).toContain(`${title} ${dependencies[name]}`);
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
    ["caddyfile", "deploy/proxy/Caddyfile"],
  ])("shows lines that occur in the complete example for %s", (language, file) => {
    const [, example = ""] =
      new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, "m").exec(textOf("docs/hardening.md")) ?? [];
    const whole = textOf(file)
      .split("\n")
      .map((line) => line.trim());
    const shown = example.split("\n").map((line) => line.trim());
    expect(shown.filter((line) => !whole.includes(line))).toEqual([]);
  });
});

describe("the check of links", () => {
  it("finds broken links and pictures without a description", () => {
    const page = `[a](nowhere.md) [b](../README.md#nothing) <img alt="A picture of it" src="images/none.png"> ![](x.svg)
\`\`\`
[not](a-link.md)
\`\`\`
[elsewhere](https://example.com) <source srcset="images/none-dark.png"> [good](../README.md)`;
    expect(ownLinks(page).filter((link) => !isGoodLink("docs/page.md", link))).toEqual([
      "nowhere.md",
      "../README.md#nothing",
      "x.svg",
      "images/none.png",
      "images/none-dark.png",
    ]);
    expect(unnamedPictures(page)).toEqual(["![](x.svg)"]);
  });
});

describe("the check of names", () => {
  it("rejects names that do not exist", () => {
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
