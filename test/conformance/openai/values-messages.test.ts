import { describe } from "vitest";
import { startService } from "../../support/start-service.js";
import { describeMessageValues } from "./values-messages.suite.js";

describe("messages of a chat request", () => describeMessageValues(() => startService()));
