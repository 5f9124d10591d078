import {
  type BinaryNode,
  type CallNode,
  Environment,
  type ForNode,
  type JinjaEnvironment,
  type JinjaNode,
  type JinjaValue,
  type MemberNode,
  type NameNode,
  type SelectNode,
  TemplateTooLarge,
  type TupleNode,
  templateCharsMax,
  templateItemsMax,
} from "./jinja.js";
import { capitalized, charactersOf, FilteringInterpreter, givenNode, isTrue } from "./jinja-filters.js";
import {
  areEqual,
  BooleanValue,
  contains,
  IntegerValue,
  isList,
  isText,
  isUndefined,
  itemsOf,
  StringValue,
  stripped,
  textOf,
  typeName,
  UndefinedValue,
} from "./jinja-values.js";

/** `break` or `continue`, with the text that the loop iteration wrote before it. */
class LoopControl extends Error {
  written = "";
  readonly endsLoop: boolean;

  constructor(endsLoop: boolean) {
    super("a loop control outside of a loop");
    this.endsLoop = endsLoop;
  }
}

/** Statements that add no text to the prompt. */
const silentStatements: ReadonlySet<string> = new Set(["Set", "Macro", "Comment"]);
const stripEnds = { strip: "both", lstrip: "left", rstrip: "right" } as const;

/**
 * Runs templates with the results of Python's Jinja2. It overrides the parts in which @huggingface/jinja differs: equality,
 * the text of values, the scope of a loop iteration, characters to strip, filters. It throws where Python raises an error.
 *
 * It refuses any text or list above its bound as soon as it is created. A time limit is not enough: a list that doubles
 * itself takes all memory within a second.
 */
export class TemplateInterpreter extends FilteringInterpreter {
  override evaluate(node: JinjaNode | undefined, environment: JinjaEnvironment): JinjaValue {
    if (node?.type === "Break" || node?.type === "Continue") throw new LoopControl(node.type === "Break");
    const result = super.evaluate(node, environment);
    const { value } = result;
    if (typeof value === "string" && value.length > templateCharsMax) {
      throw new TemplateTooLarge(`a text of more than ${templateCharsMax} characters`);
    }
    if (Array.isArray(value) && value.length > templateItemsMax) {
      throw new TemplateTooLarge(`a list of more than ${templateItemsMax} items`);
    }
    return result;
  }

  override evaluateBlock(statements: readonly JinjaNode[], environment: JinjaEnvironment): JinjaValue {
    let written = "";
    for (const statement of statements) {
      try {
        const value = this.evaluate(statement, environment);
        if (!silentStatements.has(statement.type)) written += textOf(value);
      } catch (thrown) {
        if (thrown instanceof LoopControl) thrown.written = written + thrown.written;
        throw thrown;
      }
    }
    return new StringValue(written);
  }

  /** Each loop iteration has a scope of its own. */
  override evaluateFor(node: ForNode, environment: JinjaEnvironment): JinjaValue {
    const items = this.#itemsOfLoop(node, environment);
    if (items.length === 0) return this.evaluateBlock(node.defaultBlock, new Environment(environment));
    let written = "";
    for (const [at, item] of items.entries()) {
      const scope = scopeOf(environment, node.loopvar, item);
      setLoopFacts(scope, items, at);
      try {
        written += textOf(this.evaluateBlock(node.body, scope));
      } catch (thrown) {
        if (!(thrown instanceof LoopControl)) throw thrown;
        written += thrown.written;
        if (thrown.endsLoop) break;
      }
    }
    return new StringValue(written);
  }

  #itemsOfLoop({ iterable, loopvar }: ForNode, environment: JinjaEnvironment): readonly JinjaValue[] {
    const select = iterable.type === "SelectExpression" ? (iterable as SelectNode) : null;
    const items = itemsOf(this.evaluate(select?.lhs ?? iterable, environment));
    if (items.length > templateItemsMax) {
      throw new TemplateTooLarge(`a loop over more than ${templateItemsMax} items`);
    }
    if (select === null) return items;
    return items.filter((item) => isTrue(this.evaluate(select.test, scopeOf(environment, loopvar, item))));
  }

  override evaluateBinaryExpression(node: BinaryNode, environment: JinjaEnvironment): JinjaValue {
    const operator = node.operator.value;
    if (operator === "and" || operator === "or") return super.evaluateBinaryExpression(node, environment);
    const left = this.evaluate(node.left, environment);
    const right = this.evaluate(node.right, environment);
    const result = binary(operator, left, right);
    if (result !== null) return result;
    const known = { ...node, left: givenNode(left), right: givenNode(right) };
    return super.evaluateBinaryExpression(known, environment);
  }

  override evaluateMemberExpression(node: MemberNode, environment: JinjaEnvironment): JinjaValue {
    const object = this.evaluate(node.object, environment);
    if (isUndefined(object)) throw new TypeError(`${nameOf(node.object)} is undefined`);
    const known = { ...node, object: givenNode(object) };
    if (!isText(object) || !node.computed || node.property.type === "SliceExpression") {
      return super.evaluateMemberExpression(known, environment);
    }
    const property = this.evaluate(node.property, environment);
    if (property.type === "IntegerValue") {
      return itemsOf(object).at(Number(property.value)) ?? new UndefinedValue(undefined);
    }
    return super.evaluateMemberExpression({ ...known, property: givenNode(property) }, environment);
  }

  override evaluateCallExpression(node: CallNode, environment: JinjaEnvironment): JinjaValue {
    if (node.callee.type !== "MemberExpression") return super.evaluateCallExpression(node, environment);
    const callee = node.callee as MemberNode;
    if (callee.computed) return super.evaluateCallExpression(node, environment);
    const object = this.evaluate(callee.object, environment);
    const method = (callee.property as NameNode).value;
    if (isText(object) && isStripping(method)) {
      const [[characters]] = this.evaluateArguments(node.args, environment);
      return new StringValue(stripped(object.value, charactersOf(characters), stripEnds[method]));
    }
    if (isText(object) && method === "capitalize") return new StringValue(capitalized(object.value));
    const known: MemberNode = { ...callee, object: givenNode(object) };
    return super.evaluateCallExpression({ ...node, callee: known }, environment);
  }
}

/** The result of an operator; null: the library's own result is correct. Throws where Python does. */
function binary(operator: string, left: JinjaValue, right: JinjaValue): JinjaValue | null {
  switch (operator) {
    case "==":
      return new BooleanValue(areEqual(left, right));
    case "!=":
      return new BooleanValue(!areEqual(left, right));
    case "~":
      return new StringValue(textOf(left) + textOf(right));
    case "in":
      return isList(right) ? new BooleanValue(contains(right.value, left)) : null;
    case "not in":
      return isList(right) ? new BooleanValue(!contains(right.value, left)) : null;
    case "+": {
      if (isText(left) === isText(right)) return null;
      throw new TypeError(`a value of type ${typeName(isText(left) ? right : left)} cannot be added to a text`);
    }
    case "%": {
      if (left.type !== "IntegerValue" || right.type !== "IntegerValue") return null;
      const divisor = Number(right.value);
      return new IntegerValue(((Number(left.value) % divisor) + divisor) % divisor);
    }
    default:
      return null;
  }
}

function scopeOf(outer: JinjaEnvironment, target: ForNode["loopvar"], item: JinjaValue): JinjaEnvironment {
  const scope = new Environment(outer);
  bind(scope, target, item);
  return scope;
}

function bind(scope: JinjaEnvironment, target: JinjaNode, item: JinjaValue): void {
  if (target.type === "Identifier") {
    scope.setVariable((target as NameNode).value, item);
    return;
  }
  const names = (target as TupleNode).value;
  const parts = itemsOf(item);
  if (parts.length !== names.length) throw new TypeError(`${names.length} values were expected, not ${parts.length}`);
  for (const [i, name] of names.entries()) bind(scope, name, parts[i] ?? item);
}

/** Sets the variable `loop` (index, first, last and others) of one iteration. */
function setLoopFacts(scope: JinjaEnvironment, items: readonly JinjaValue[], at: number): void {
  const { length } = items;
  const place = { index: at + 1, index0: at, revindex: length - at, revindex0: length - at - 1, length };
  const loop = scope.set("loop", { ...place, first: at === 0, last: at === length - 1 });
  const facts = loop.value as Map<string, JinjaValue>;
  facts.set("previtem", items[at - 1] ?? new UndefinedValue(undefined));
  facts.set("nextitem", items[at + 1] ?? new UndefinedValue(undefined));
}

function nameOf(node: JinjaNode): string {
  return node.type === "Identifier" ? `'${(node as NameNode).value}'` : "a value";
}

function isStripping(method: string): method is keyof typeof stripEnds {
  return Object.hasOwn(stripEnds, method);
}
