import OpenAI from "openai";
import { chatScenarios } from "./openai-chat-scenarios.js";
import { createContext } from "./openai-context.js";
import { failureScenarios } from "./openai-failure-scenarios.js";
import { otherScenarios } from "./openai-other-scenarios.js";
import { responseScenarios } from "./openai-response-scenarios.js";
import type { RunScenario, ScenarioName, Scenarios } from "./openai-scenarios.js";
import { describeOpenAiSdk } from "./openai-sdk.suite.js";
import { toolScenarios } from "./openai-tool-scenarios.js";

const scenarios: Scenarios = {
  ...chatScenarios,
  ...toolScenarios,
  ...responseScenarios,
  ...otherScenarios,
  ...failureScenarios,
};

describeOpenAiSdk("npm openai 6", async (target) => {
  const context = createContext(OpenAI, target);
  const run = (name: ScenarioName): Promise<unknown> => scenarios[name](context);
  return { run: run as RunScenario, async stop() {} };
});
