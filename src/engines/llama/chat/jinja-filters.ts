import {
  type CallNode,
  Interpreter,
  type JinjaEnvironment,
  type JinjaNode,
  type JinjaValue,
  type NameNode,
  type TestNode,
} from "./jinja.js";
import {
  ArrayValue,
  areEqual,
  attributeOf,
  BooleanValue,
  contains,
  IntegerValue,
  isList,
  isMapping,
  isText,
  isUndefined,
  itemsOf,
  StringValue,
  stripped,
  textOf,
  UndefinedValue,
} from "./jinja-values.js";

type Condition = (value: JinjaValue) => boolean;

/** Arguments by position, and by name. */
type Arguments = readonly [readonly JinjaValue[], ReadonlyMap<string, JinjaValue>];

/** Filters of the library that take any value as a text. */
const textFilters: ReadonlySet<string> = new Set(["upper", "lower", "title", "replace", "indent"]);
const noArguments: Arguments = [[], new Map()];

/** Filters and tests as Jinja2 of Python has them, where @huggingface/jinja differs. */
export class FilteringInterpreter extends Interpreter {
  override evaluate(node: JinjaNode | undefined, environment: JinjaEnvironment): JinjaValue {
    return node?.type === givenType ? (node as GivenNode).value : super.evaluate(node, environment);
  }

  override evaluateTestExpression(node: TestNode, environment: JinjaEnvironment): JinjaValue {
    if (node.test.value !== "iterable") return super.evaluateTestExpression(node, environment);
    const operand = this.evaluate(node.operand, environment);
    const isIterable = isList(operand) || isMapping(operand) || isText(operand) || isUndefined(operand);
    return new BooleanValue(isIterable !== node.negate);
  }

  override applyFilter(operand: JinjaValue, filter: NameNode | CallNode, environment: JinjaEnvironment): JinjaValue {
    const isCall = "args" in filter;
    const name = isCall ? (filter.callee as NameNode).value : filter.value;
    const given = isCall ? this.evaluateArguments(filter.args, environment) : noArguments;
    const filtered = textFilter(name, operand, given) ?? this.#listFilter(name, operand, given, environment);
    if (filtered !== null) return filtered;
    if (name === "tojson" && isUndefined(operand)) throw new TypeError("an undefined value has no JSON");
    const known = textFilters.has(name) ? new StringValue(textOf(operand)) : operand;
    return super.applyFilter(known, filter, environment);
  }

  /** The result of a filter of lists; null: the library's own filter is used. */
  #listFilter(
    name: string,
    operand: JinjaValue,
    [args, named]: Arguments,
    environment: JinjaEnvironment,
  ): JinjaValue | null {
    const [first, ...rest] = args;
    switch (name) {
      case "length":
      case "count":
        return new IntegerValue(itemsOf(operand).length);
      case "list":
        return new ArrayValue(itemsOf(operand));
      case "first":
        return itemsOf(operand)[0] ?? new UndefinedValue(undefined);
      case "last":
        return itemsOf(operand).at(-1) ?? new UndefinedValue(undefined);
      case "select":
      case "reject": {
        const condition = this.#condition(args, environment);
        return new ArrayValue(itemsOf(operand).filter((item) => condition(item) === (name === "select")));
      }
      case "selectattr":
      case "rejectattr": {
        const condition = this.#condition(rest, environment);
        const path = textOf(required(first, name));
        const isTaken: Condition = (item) => condition(attributeOf(item, path)) === (name === "selectattr");
        return new ArrayValue(itemsOf(operand).filter(isTaken));
      }
      case "map": {
        const attribute = named.get("attribute");
        if (attribute !== undefined) return mapped(operand, textOf(attribute), named.get("default"));
        const callee = { type: "Identifier", value: textOf(required(first, name)) };
        const filter = rest.length === 0 ? callee : { type: "CallExpression", callee, args: rest.map(givenNode) };
        return new ArrayValue(itemsOf(operand).map((item) => this.applyFilter(item, filter, environment)));
      }
      default:
        return null;
    }
  }

  /** The test of a filter such as `select`: the truth of a value, unless a test is named. */
  #condition([name, ...args]: readonly JinjaValue[], environment: JinjaEnvironment): Condition {
    if (name === undefined) return isTrue;
    const [other = new UndefinedValue(undefined)] = args;
    const test = { type: "Identifier", value: textOf(name) };
    switch (test.value) {
      case "equalto":
      case "eq":
      case "==":
        return (value) => areEqual(value, other);
      case "ne":
      case "!=":
        return (value) => !areEqual(value, other);
      case "in":
        return (value) => contains(itemsOf(other), value);
      default:
        return (value) => {
          const node = { type: "TestExpression", operand: givenNode(value), negate: false, test };
          return isTrue(this.evaluateTestExpression(node, environment));
        };
    }
  }
}

/** The result of a filter of texts; null: it is not a filter that this function implements. */
function textFilter(name: string, operand: JinjaValue, [args, named]: Arguments): JinjaValue | null {
  const [first, second] = args;
  switch (name) {
    case "string":
      return new StringValue(textOf(operand));
    case "trim":
      return new StringValue(stripped(textOf(operand), charactersOf(first ?? named.get("chars")), "both"));
    case "capitalize":
      return new StringValue(capitalized(textOf(operand)));
    case "join": {
      const separator = first ?? named.get("d");
      const path = second ?? named.get("attribute");
      const parts = itemsOf(operand).map((item) => textOf(path === undefined ? item : attributeOf(item, textOf(path))));
      return new StringValue(parts.join(separator === undefined ? "" : textOf(separator)));
    }
    default:
      return null;
  }
}

function mapped(operand: JinjaValue, path: string, absent: JinjaValue | undefined): JinjaValue {
  const values = itemsOf(operand).map((item) => attributeOf(item, path));
  return new ArrayValue(values.map((value) => (isUndefined(value) ? (absent ?? value) : value)));
}

function required(argument: JinjaValue | undefined, filter: string): JinjaValue {
  if (argument === undefined) throw new TypeError(`the filter '${filter}' needs an argument`);
  return argument;
}

const givenType = "Given";

interface GivenNode extends JinjaNode {
  readonly value: JinjaValue;
}

/** A node that has been evaluated. */
export function givenNode(value: JinjaValue): GivenNode {
  return { type: givenType, value };
}

export function isTrue(value: JinjaValue): boolean {
  return value.__bool__().value;
}

/** The characters to strip; null: white space. */
export function charactersOf(argument: JinjaValue | undefined): string | null {
  return argument === undefined || argument.type === "NullValue" ? null : textOf(argument);
}

/** Python's `str.capitalize`. */
export function capitalized(text: string): string {
  const [first = ""] = text;
  return first.toUpperCase() + text.slice(first.length).toLowerCase();
}
