import { readFileSync } from "node:fs";
import { Ajv } from "ajv";
import { describe, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { configSchema } from "../../../src/app/config/schema.js";
import { metricTable } from "../../../src/telemetry/metrics/metric-table.js";
import { isGoodLink, ownLinks } from "../docs/links.js";

const read = (file: string) => readFileSync(file, "utf8");
const schema = JSON.parse(read("deploy/helm/unified-inference/values.schema.json")) as object;

describe.each(["llm-d", "kserve"])("deploy/kubernetes/%s-values.yaml", (name) => {
  const values = parse(read(`deploy/kubernetes/${name}-values.yaml`)) as { readonly config: object };

  it("has values of the chart, and a configuration that the service accepts", () => {
    const ajv = new Ajv({ allowUnionTypes: true });
    expect([ajv.validate(schema, values), ajv.errorsText()]).toEqual([true, "No errors"]);
    expect(configSchema.safeParse(values.config).error?.issues).toBeUndefined();
  });
});

describe("deploy/kubernetes/kserve.yaml", () => {
  it("serves the model to which the chart's values refer", () => {
    const [service, policy] = parseAllDocuments(read("deploy/kubernetes/kserve.yaml")).map((document) => {
      expect(document.errors).toEqual([]);
      return document.toJS() as { kind: string; metadata: { name: string }; spec: { model: { name: string } } };
    });
    expect([service?.kind, policy?.kind]).toEqual(["LLMInferenceService", "NetworkPolicy"]);
    const values = read("deploy/kubernetes/kserve-values.yaml");
    expect(values).toContain(`model: ${service?.spec.model.name},`);
    expect(values).toContain(`/models/${service?.metadata.name}/v1`);
  });
});

describe("deploy/kubernetes/prometheus-adapter.yaml", () => {
  it("provides the metrics that the chart uses for autoscaling", () => {
    const { rules } = parse(read("deploy/kubernetes/prometheus-adapter.yaml")) as {
      readonly rules: { readonly custom: readonly { readonly name: { readonly as: string } }[] };
    };
    const names = rules.custom.map(({ name }) => name.as);
    const scaling = read("deploy/helm/unified-inference/templates/scaling.yaml");
    expect(names.toSorted()).toEqual([...new Set(scaling.match(/\buis_[a-z_]+/g))].toSorted());
    expect(names.filter((name) => !Object.hasOwn(metricTable, name))).toEqual([]);
  });
});

describe("deploy/ray", () => {
  it("has one deployment with no more slots than Ray queues", () => {
    const { upstreams, models } = configSchema.parse(parse(read("deploy/ray/uis.yaml")));
    const { applications } = parse(read("deploy/ray/serve.yaml")) as {
      readonly applications: readonly {
        readonly import_path: string;
        readonly args: {
          readonly llm_configs: readonly {
            readonly model_loading_config: { readonly model_id: string };
            readonly deployment_config: { readonly max_queued_requests: number };
          }[];
        };
      }[];
    };
    const [application] = applications;
    const [served] = application?.args.llm_configs ?? [];
    const [model] = models ?? [];
    expect(application?.import_path).toBe("ray.serve.llm:build_openai_app");
    expect(upstreams["ray"]?.kind).toBe("ray");
    expect(model?.id).toBe(served?.model_loading_config.model_id);
    expect((model as { slots: number }).slots).toBeLessThanOrEqual(served?.deployment_config.max_queued_requests ?? 0);
  });
});

describe.each(["deploy/kubernetes/llm-d.md", "deploy/kubernetes/kserve.md", "deploy/ray/README.md"])("%s", (page) => {
  it("links to files that exist, and states which parts were not tested", () => {
    expect(ownLinks(read(page)).filter((link) => !isGoodLink(page, link))).toEqual([]);
    expect(read(page)).toMatch(/\*\*Not run:\*\* \S/);
  });
});
