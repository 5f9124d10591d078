import { describeThroughGateway } from "./suites.js";

describeThroughGateway(["openai/limits.test.ts", "rpc/limits.test.ts", "rpc/same-answer.test.ts"]);
