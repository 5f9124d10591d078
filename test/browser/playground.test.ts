import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { accessibilityFaults } from "../support/browser/accessibility.js";
import { hasChromium } from "../support/browser/chromium.js";
import type { DashboardRun, Visit } from "../support/browser/dashboard.js";
import { keyboardFaults } from "../support/browser/keyboard.js";
import { takePictures } from "../support/browser/pictures.js";
import { startDashboardOn, storesByTier } from "../support/browser/stores.js";
import { visitPage } from "../support/browser/visit-page.js";
import { eventually } from "../support/eventually.js";

const models = [
  { id: "slow", engine: "scripted", scripted: { text: "Word. ", tokens: 400, token_delay_ms: 40 } },
  { id: "echo", engine: "scripted" },
  { id: "caller", engine: "scripted", scripted: { tool_call: { name: "weather", arguments: { city: "Oslo" } } } },
  { id: "late", engine: "scripted", scripted: { first_token_delay_ms: 600_000 } },
  { id: "failing", engine: "scripted", scripted: { fail: { code: "internal_error", times: 1 } } },
  { id: "embed", engine: "scripted", scripted: { dimensions: 8 } },
];
const tools = JSON.stringify([{ type: "function", function: { name: "weather", parameters: { type: "object" } } }]);

let dashboard: DashboardRun;
let visit: Visit;

const message = () => visit.page.getByLabel("Message");
const status = () => visit.page.getByRole("status");
const turn = (index: number) => visit.page.getByRole("list", { name: "Conversation" }).getByRole("listitem").nth(index);

async function send(text: string): Promise<void> {
  await message().fill(text);
  await visit.page.getByRole("button", { name: "Send" }).click();
}

// Needs Debian's Chromium.
describe.skipIf(!hasChromium).each(storesByTier)("playground page, state in %s", (store) => {
  beforeAll(async () => {
    dashboard = await startDashboardOn(store, { config: { models } });
  });
  afterAll(() => dashboard?.close());

  beforeEach(async () => {
    visit = await visitPage(dashboard, null, { permissions: ["clipboard-read", "clipboard-write"] });
  });

  it("streams an answer, and the stop button cancels generation", async () => {
    const { page } = visit;
    await visit.go("playground?model=slow");
    await send("Go on");
    await turn(1)
      .getByText(/^(Word\. ){3}/)
      .waitFor();
    const early = await turn(1).innerText();
    await eventually(async () => (await turn(1).innerText()).length > early.length);
    expect((await dashboard.service.debugState()).requests.running).toBe(1);
    const list = page.getByRole("list", { name: "Conversation" });
    expect(await list.getAttribute("aria-busy")).toBe("true");

    await page.getByRole("button", { name: "Stop" }).click();
    await status().getByText("Stopped.").waitFor();
    expect(await status().innerText()).toMatch(/Time to first token .* ms, \d.* tokens\/s, \d+ tokens/);
    expect(await list.getAttribute("aria-busy")).toBe("false");
    await eventually(async () => (await dashboard.service.debugState()).requests.running === 0);
    const kept = await turn(1).innerText();
    expect(kept).toContain("Word.");
    expect(await accessibilityFaults(page)).toEqual([]);
    expect(await keyboardFaults(page)).toEqual([]);
    await takePictures(page, "playground");
  });

  it("sends no second request while one is running", async () => {
    const { page } = visit;
    await visit.go("playground?model=slow");
    await send("One");
    await turn(1).getByText("Word.").waitFor();
    await message().fill("Two");
    await message().press("Enter");
    await message().press("Enter");
    expect(await message().inputValue()).toBe("Two");
    expect(await page.getByRole("list", { name: "Conversation" }).getByRole("listitem").count()).toBe(2);
    expect((await dashboard.service.debugState()).requests.running).toBe(1);
    await page.getByRole("button", { name: "Stop" }).click();
    await status().getByText("Stopped.").waitFor();
    await eventually(async () => (await dashboard.service.debugState()).requests.running === 0);
    expect(await turn(1).innerText()).toMatch(/^Assistant\s+(Word\.\s*)+Copy\s+Regenerate$/);
  });

  it("puts an unanswered message back into the input", async () => {
    const { page } = visit;
    await visit.go("playground?model=failing");
    await send("Hello");
    await status().getByText("Failed.").waitFor();
    expect(await message().inputValue()).toBe("Hello");
    await page.getByText("Send a message to start.").waitFor();
    await page.getByRole("button", { name: "Send" }).click();
    await status().getByText("Done.").waitFor();
    expect(await turn(0).innerText()).toContain("Hello");
    expect(await turn(1).innerText()).toContain("Hello");

    await page.getByLabel("Model", { exact: true }).selectOption("late");
    await send("More");
    await status().getByText("Running…").waitFor();
    await message().fill("and more");
    await page.getByRole("button", { name: "Stop" }).click();
    await status().getByText("Stopped.").waitFor();
    expect(await message().inputValue()).toBe("More\nand more");
    expect(await page.getByRole("list", { name: "Conversation" }).getByRole("listitem").count()).toBe(2);
    await page.getByRole("button", { name: "New conversation" }).click();
    await page.getByText("Send a message to start.").waitFor();
    expect((await status().innerText()).trim()).toBe("");
  });

  it("marks an answer that reached max tokens", async () => {
    const { page } = visit;
    const cut = page.getByText("Truncated: max tokens reached.");
    await visit.go("playground?model=echo");
    await page.getByLabel("Max tokens").fill("2");
    await send("One two three four five");
    await status().getByText("Done.").waitFor();
    await turn(1).getByText("Truncated: max tokens reached.").waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    await page.getByLabel("Endpoint", { exact: true }).selectOption("Completions");
    await page.getByLabel("Prompt").fill("One two three four five");
    await page.getByRole("button", { name: "Complete" }).click();
    await cut.waitFor();
    await page.getByLabel("Max tokens").fill("100");
    await page.getByRole("button", { name: "Complete" }).click();
    await cut.waitFor({ state: "detached" });
    await status().getByText("Done.").waitFor();
    expect(await cut.count()).toBe(0);
  });

  it("continues a conversation, and shows it with the settings as code without an API key", async () => {
    const { page } = visit;
    await visit.go("playground?model=echo");
    await page.getByLabel("System prompt").fill("Be short.");
    await page.getByLabel("Temperature").fill("0.5");
    await send("First");
    await status().getByText("Done.").waitFor();
    await message().fill("Second");
    await message().press("Shift+Enter");
    await message().press("Backspace");
    await message().press("Enter");
    await turn(3).getByText("Second").waitFor();
    await status().getByText("Done.").waitFor();

    await page.getByText("Copy as code").click();
    await page.getByRole("group").getByRole("button", { name: "Copy", exact: true }).click();
    await page.getByText("Copied").waitFor();
    const curl = await page.evaluate(() => navigator.clipboard.readText());
    expect(curl).toContain(`curl --no-buffer '${dashboard.service.api}/chat/completions'`);
    expect(curl).toContain('"authorization: Bearer $UIS_API_KEY"');
    for (const part of ["Be short.", "First", "Second", '"temperature": 0.5']) expect(curl).toContain(part);
    await page.getByLabel("Language").selectOption("Python");
    expect(await page.getByRole("button", { name: "Copied" }).count()).toBe(0);
    for (const language of ["Python", "TypeScript", "gRPC (buf curl)"]) {
      await page.getByLabel("Language").selectOption(language);
      expect(await page.locator("pre").innerText()).toContain("Second");
    }
    // The actual port of the gRPC listener, not the default.
    expect(await page.locator("pre").innerText()).toContain(`http://${dashboard.service.grpc}/unified.inference.v1.`);
    expect(await accessibilityFaults(page)).toEqual([]);
    await takePictures(page, "playground-code");
    await page.getByRole("button", { name: "New conversation" }).click();
    await page.getByText("Send a message to start.").waitFor();
  });

  it("renders Markdown, copies an answer and its code, and shows markup as text (SEC-21)", async () => {
    const { page } = visit;
    const code = "const a = 1 < 2;";
    const markup = '<img src=x onerror="alert(1)"><script>window.__x = 1</script>';
    const text = `**Bold** and [a link](https://x.example) ${markup}\n\n- one\n- two\n\n\`\`\`ts\n${code}\n\`\`\``;
    await visit.go("playground?model=echo");
    await send(text);
    await status().getByText("Done.").waitFor();
    expect(await turn(1).locator("strong").allInnerTexts()).toContain("Bold");
    expect(await turn(1).getByRole("link", { name: "a link" }).getAttribute("rel")).toContain("noopener");
    expect(await turn(1).locator("li").allInnerTexts()).toEqual(["one", "two"]);
    expect(await turn(1).innerText()).toContain(markup);
    expect(await page.evaluate(() => "__x" in window)).toBe(false);
    const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
    await turn(1).getByRole("button", { name: "Copy code" }).click();
    await turn(1).getByText("Copied").waitFor();
    expect(await clipboard()).toBe(code);
    await turn(1).getByRole("button", { name: "Copy", exact: true }).click();
    await expect.poll(clipboard).toBe(text);
    expect(await accessibilityFaults(page)).toEqual([]);
    await takePictures(page, "playground-markdown");
  });

  it("regenerates an answer, and sends an edited message in place of the first", async () => {
    const { page } = visit;
    await visit.go("playground?model=echo");
    await send("First");
    await status().getByText("Done.").waitFor();
    await send("Second");
    await turn(3).getByText("Second").waitFor();
    await status().getByText("Done.").waitFor();
    await turn(3).getByRole("button", { name: "Regenerate" }).click();
    await status().getByText("Done.").waitFor();
    expect(await turn(3).innerText()).toContain("Second");

    await turn(0).getByRole("button", { name: "Edit" }).click();
    const edited = page.getByLabel("Edited message");
    await edited.press("Escape");
    await edited.waitFor({ state: "detached" });
    await turn(0).getByRole("button", { name: "Edit" }).click();
    expect(await edited.inputValue()).toBe("First");
    await edited.fill("Changed");
    expect(await accessibilityFaults(page)).toEqual([]);
    await edited.press("Enter");
    await turn(1).getByText("Changed").waitFor();
    await status().getByText("Done.").waitFor();
    expect(await turn(2).count()).toBe(0);
  });

  it("stores conversations in the browser until the user deletes them, and shows them after a reload", async () => {
    const { page } = visit;
    const kept = (name: string) => page.getByRole("group").getByRole("button", { name, exact: false }).first();
    await visit.go("playground?model=echo");
    await page.getByLabel("System prompt").fill("Be short.");
    await send("Apples");
    await kept("Apples").waitFor();
    await page.reload();
    await turn(1).getByText("Apples").waitFor();
    expect(await page.getByLabel("System prompt").inputValue()).toBe("Be short.");
    await page.getByRole("button", { name: "New conversation" }).click();
    await send("Pears");
    await kept("Pears").waitFor();
    await kept("Apples").click();
    await turn(1).getByText("Apples").waitFor();
    expect(await kept("Apples").getAttribute("aria-current")).toBe("true");
    expect(await accessibilityFaults(page)).toEqual([]);
    expect(await keyboardFaults(page)).toEqual([]);
    await page.getByRole("button", { name: "Delete conversation “Apples”" }).click();
    await page.getByText("Send a message to start.").waitFor();
    await page.getByRole("button", { name: "Delete all" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete all" }).click();
    await page.getByText("Kept in this browser only.").waitFor({ state: "detached" });
    expect(await page.evaluate(() => Object.keys(localStorage))).toEqual([]);
  });

  it("offers tools, shows tool calls, and continues with their results", async () => {
    const { page } = visit;
    await visit.go("playground?model=caller");
    await page.getByLabel("Tools").fill("[{");
    await send("The weather?");
    expect(await page.getByRole("alert").first().innerText()).toContain("Tools are not valid JSON");
    await page.getByLabel("Tools").fill(tools);
    await page.getByRole("button", { name: "Send" }).click();
    await turn(1).getByText('Tool call: weather {"city":"Oslo"}').waitFor();
    await page.getByLabel("Result of weather").fill("Rain");
    expect(await accessibilityFaults(page)).toEqual([]);
    await page.getByLabel("Tools").fill("");
    await page.getByRole("button", { name: "Send results" }).click();
    await status().getByText("Done.").waitFor();
    await turn(3).waitFor();
    expect(await turn(2).innerText()).toContain("Rain");
  });

  it("completes a prompt, and shows the service's error message", async () => {
    const { page } = visit;
    await visit.go("playground?model=echo&mode=completions");
    await page.getByLabel("Prompt").fill("Once upon a time");
    await page.getByRole("button", { name: "Complete" }).click();
    await page.getByRole("region", { name: "Completion" }).getByText("Once upon a time").waitFor();
    await status().getByText("Done.").waitFor();
    await page.getByLabel("Temperature").fill("9");
    await page.getByRole("button", { name: "Complete" }).click();
    expect(await page.getByRole("alert").first().innerText()).toContain("temperature");
    expect(await page.getByLabel("Temperature").getAttribute("aria-invalid")).toBe("true");
    expect(await accessibilityFaults(page)).toEqual([]);
  });

  it("embeds texts and compares them", async () => {
    const { page } = visit;
    await visit.go("playground?mode=embeddings");
    await page.getByLabel("Input").fill("the same\nthe same\nanother");
    await page.getByRole("button", { name: "Embed" }).click();
    const rows = page.getByRole("table", { name: "Embeddings" }).getByRole("row");
    await rows.nth(3).waitFor();
    expect(await rows.nth(2).innerText()).toContain("1.000");
    expect(await rows.nth(3).innerText()).toContain("another");
    expect(await accessibilityFaults(page)).toEqual([]);
  });
});
