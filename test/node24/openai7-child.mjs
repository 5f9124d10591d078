/**
 * Runs scenarios of the openai package with the version of this folder. Takes `{ target }` first, then `{ name }` for
 * each scenario, and answers `{ result }` or `{ error }`. Ends when its parent disconnects. Node 24 runs the TypeScript of
 * the scenarios without compilation.
 */
import OpenAI from "openai";
import { chatScenarios } from "../conformance/sdk/openai-chat-scenarios.ts";
import { createContext } from "../conformance/sdk/openai-context.ts";
import { failureScenarios } from "../conformance/sdk/openai-failure-scenarios.ts";
import { otherScenarios } from "../conformance/sdk/openai-other-scenarios.ts";
import { responseScenarios } from "../conformance/sdk/openai-response-scenarios.ts";
import { toolScenarios } from "../conformance/sdk/openai-tool-scenarios.ts";

const scenarios = {
  ...chatScenarios,
  ...toolScenarios,
  ...responseScenarios,
  ...otherScenarios,
  ...failureScenarios,
};
let context;

process.on("message", async ({ target, name }) => {
  if (target !== undefined) {
    context = createContext(OpenAI, target);
    return;
  }
  try {
    process.send({ result: await scenarios[name](context) });
  } catch (error) {
    process.send({ error: String(error?.stack ?? error) });
  }
});
process.on("disconnect", () => process.exit());
