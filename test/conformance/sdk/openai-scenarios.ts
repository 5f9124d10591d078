import type { chatScenarios } from "./openai-chat-scenarios.js";
import type { failureScenarios } from "./openai-failure-scenarios.js";
import type { otherScenarios } from "./openai-other-scenarios.js";
import type { responseScenarios } from "./openai-response-scenarios.js";
import type { toolScenarios } from "./openai-tool-scenarios.js";

/** All scenarios of the openai package, by name. */
export type Scenarios = typeof chatScenarios &
  typeof toolScenarios &
  typeof responseScenarios &
  typeof otherScenarios &
  typeof failureScenarios;
export type ScenarioName = keyof Scenarios;
export type ScenarioResult<N extends ScenarioName> = Awaited<ReturnType<Scenarios[N]>>;

/** Runs a scenario, here or in another process. */
export type RunScenario = <N extends ScenarioName>(name: N) => Promise<ScenarioResult<N>>;
