import { describeThroughGateway } from "./suites.js";

describeThroughGateway(["rpc/same-answer.test.ts"]);
