import { afterAll, beforeAll, describe } from "vitest";
import { startThroughGateway } from "../../support/fleet/start-fleet.js";
import { startEachWith } from "../../support/start-service.js";

/** Runs test files of `test/conformance` once more, on a gateway with a core in place of one process. */
export function describeThroughGateway(files: readonly string[]): void {
  describe.each(files)("through a gateway: %s", async (file) => {
    beforeAll(() => startEachWith(startThroughGateway));
    afterAll(() => startEachWith(null));
    // The query makes it a module of its own: a file that has run before would add no tests.
    await import(`${new URL(`../${file}`, import.meta.url).pathname}?through=gateway`);
  });
}
