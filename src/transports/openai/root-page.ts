import { type OperationRow, operations } from "../../contract/operations.js";
import { version } from "../../contract/version.js";

/** A page without credential. */
export interface Page {
  readonly status: number;
  readonly body: object;
}

const routes = (Object.values(operations) as OperationRow[]).flatMap(({ rest }) =>
  rest === undefined ? [] : [`${rest.method} ${rest.path}`],
);

/** What `/v1` says to somebody who opens it in a browser (CONN-8). */
export function rootPage(): Page {
  return {
    status: 200,
    body: {
      name: "Unified Inference",
      version,
      routes,
      documentation: "docs/README.md of the package unified-inference",
    },
  };
}
