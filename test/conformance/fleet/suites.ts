import { afterAll, beforeAll, describe } from "vitest";
import { startThroughGateway } from "../../support/fleet/start-fleet.js";
import { startEachWith } from "../../support/start-service.js";

/** Runs test files of `test/conformance` again, with a gateway and a core instead of one process. */
export function describeThroughGateway(files: readonly string[]): void {
  describe.each(files)("through a gateway: %s", async (file) => {
    beforeAll(() => startEachWith(startThroughGateway));
    afterAll(() => startEachWith(null));
    // The query makes the import a separate module: a module that was loaded before would define no tests again.
    await import(`${new URL(`../${file}`, import.meta.url).pathname}?through=gateway`);
  });
}
