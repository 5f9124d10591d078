import { describeFleet } from "./fleet.suite.js";

describeFleet({ servers: 1_000, replicas: 2, perSecond: 400, answerMs: 10_000 }, { peakMax: 4, prints: false });
