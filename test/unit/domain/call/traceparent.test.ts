import { expect, it } from "vitest";
import { parseTraceparent } from "../../../../src/domain/call/observer.js";

const traceId = "0af7651916cd43dd8448eb211c80319c";
const spanId = "b7ad6b7169203331";

it("parseTraceparent reads trace, span and flags of any version", () => {
  expect(parseTraceparent(`00-${traceId}-${spanId}-01`)).toEqual({ traceId, spanId, flags: 1 });
  expect(parseTraceparent(`cc-${traceId}-${spanId}-00-what-is-later`)).toEqual({ traceId, spanId, flags: 0 });
});

it.each([
  undefined,
  "",
  `ff-${traceId}-${spanId}-01`,
  `00-${"0".repeat(32)}-${spanId}-01`,
  `00-${traceId}-${"0".repeat(16)}-01`,
  `00-${traceId.toUpperCase()}-${spanId}-01`,
  `00-${traceId}-${spanId}-01-more`,
  `00-${traceId}-${spanId}-01, 00-${traceId}-${spanId}-01`,
])("parseTraceparent rejects %j", (header) => {
  expect(parseTraceparent(header)).toBeNull();
});
