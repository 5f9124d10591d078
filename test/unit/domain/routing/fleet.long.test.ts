import { describeFleet } from "./fleet.suite.js";

// The load of one replica and deployment is the same as in fleet.test.ts, so both show the same losses.
describeFleet({ servers: 1_000, replicas: 50, perSecond: 10_000, answerMs: 10_000 }, { peakMax: 2.2, prints: true });
