import type { Turn } from "../support/model-reference.js";

const ask = (content: string): readonly Turn[] => [{ role: "user", content }];
const under = (system: string, content: string): readonly Turn[] => [
  { role: "system", content: system },
  ...ask(content),
];
const after = (earlier: readonly (readonly [asked: string, answered: string])[], content: string): readonly Turn[] => [
  ...earlier.flatMap(([asked, answered]): Turn[] => [
    { role: "user", content: asked },
    { role: "assistant", content: answered },
  ]),
  ...ask(content),
];

/** Thirty conversations. The first few include every kind, so that a short run covers all kinds. */
export const fidelityPrompts: readonly (readonly Turn[])[] = [
  ask("👩‍👩‍👧‍👦 is one family, 🏳️‍🌈 is one flag."),
  after([["こんにちは", "Hello!"]], "東京はどこですか？"),
  ask("What does this print?\n```js\nfor (let i = 0; i < 3; i++) console.log(i, '\\t', i ** 2);\n```"),
  ask("What is the capital of France?"),
  ask("What is 7 + 5?"),
  ask("List three primary colours, separated by commas, and nothing else."),
  ask("Hi"),
  ask("  Leading and trailing spaces  \n\n"),
  ask("Repeat after me: café, naïve, Zürich, smörgåsbord."),
  ask("Привет, как дела?"),
  ask("你好，世界"),
  ask("مرحبا بالعالم"),
  ask("नमस्ते दुनिया"),
  ask("안녕하세요"),
  ask("Γειά σου Κόσμε"),
  ask("😀😂🥳 What do these mean?"),
  under("You are terse.", "Where is Lisbon? 🇵🇹"),
  ask("Write an emoji poem about the sea 🌊🐟🐚"),
  ask("def square(x):\n    return x * x\n\nExplain this function."),
  ask("Write a Python function that returns the square of a number."),
  ask("SELECT name FROM users WHERE age > 30; -- explain"),
  ask('{"name": "Ada", "tags": ["a", "b"]} What is the name?'),
  ask('Fix: <div class="a"><p>Hi</div>'),
  under("You are a helpful assistant.", "What is the capital of Japan?"),
  under("Answer in one word.", "Is water wet?"),
  under("", "How many days does a week have?"),
  under("Du sprichst Deutsch. Antworte kurz.", "Wie heißt die Hauptstadt von Österreich?"),
  after([["Hi, I live in Lisbon.", "Hello Ada."]], "Which city do I live in?"),
  after(
    [
      ["2+2?", "4"],
      ["3+3?", "6"],
    ],
    "4+4?",
  ),
  [...under("The user's name is Ada.", "Hello"), { role: "assistant", content: "Hello Ada!" }, ...ask("Who am I?")],
];
