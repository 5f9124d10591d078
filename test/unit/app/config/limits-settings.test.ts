import { describe, expect, it } from "vitest";
import {
  constantLimits,
  limitSettingName,
  limitsSettings,
  toServiceLimits,
} from "../../../../src/app/config/limits-settings.js";
import { defaultLimits, type ServiceLimits } from "../../../../src/contract/limits.js";

const names = (Object.keys(defaultLimits) as (keyof ServiceLimits)[]).filter(
  (name) => !constantLimits.has(limitSettingName(name)),
);

describe("settings of limits", () => {
  it("have the defaults of src/contract/limits.ts", () => {
    expect(toServiceLimits(limitsSettings.parse({}))).toEqual(defaultLimits);
  });

  it("have names without a unit of time, because the unit is part of the value", () => {
    expect(names.map(limitSettingName)).toEqual(Object.keys(limitsSettings.shape));
    expect(limitSettingName("bodyBytesMax")).toBe("body_bytes_max");
    expect(limitSettingName("http2HeaderBytesMax")).toBe("http2_header_bytes_max");
    expect(limitSettingName("stallMs")).toBe("stall");
    expect(limitSettingName("nMax")).toBe("n_max");
  });

  it.each(names)("can each be set: %s", (name) => {
    const [written, meant] = name.endsWith("Ms")
      ? ["1234ms", 1234]
      : name.includes("Bytes")
        ? ["2KiB", 2048]
        : [100, 100];
    const limits = toServiceLimits(limitsSettings.parse({ [limitSettingName(name)]: written }));
    expect(limits).toEqual({ ...defaultLimits, [name]: meant });
  });

  it("are rejected if a value is out of range", () => {
    expect(limitsSettings.safeParse({ stall: "2h" }).success).toBe(false);
    expect(limitsSettings.safeParse({ body_bytes_max: 1 }).success).toBe(false);
    expect(limitsSettings.safeParse({ n_max: 0 }).success).toBe(false);
  });
});
