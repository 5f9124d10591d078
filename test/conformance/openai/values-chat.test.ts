import { describe } from "vitest";
import { startService } from "../../support/start-service.js";
import { describeChatValues } from "./values-chat.suite.js";

describe("values of a chat request", () => describeChatValues(() => startService()));
