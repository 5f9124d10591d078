/** Grammars as people write them for llama.cpp, with texts that they allow and texts that they do not. */
interface ExampleGrammar {
  readonly name: string;
  readonly grammar: string;
  readonly right: readonly string[];
  readonly wrong: readonly string[];
}

const json = String.raw`root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::= "[" ws ( value ("," ws value)* )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

# Space after tokens
ws ::= | " " | "\n" [ \t]{0,20}
`;

const arithmetic = String.raw`root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
`;

const program = `root ::= statement+
statement ::= "if (" condition ") {" statement* "}" | name " = " sum ";" | name "(" sum? ");"
condition ::= sum ("<" | "<=" | "==") sum
sum ::= factor (" + " factor)*
factor ::= name | number | call | "(" sum ")"
call ::= name "(" sum? ")"
name ::= [a-z] [a-z0-9_]*
number ::= [0-9]+
`;

const chess = String.raw`root ::= ("1. " move " " move "\n")
  ([1-9] [0-9]? ". " move " " move "\n")*
move ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?
`;

export const exampleGrammars: readonly ExampleGrammar[] = [
  {
    name: "JSON",
    grammar: json,
    right: ['{"a": [1, 2.5e3, {"b": null}], "c":"x\\n"}\n  ', "{}"],
    wrong: ['{"a":}', "[1]", '{"a":1'],
  },
  { name: "arithmetic", grammar: arithmetic, right: ["a+(b*2)=3\n", "x = 1 \n\ny=2\n"], wrong: ["a+=1\n", "a=1"] },
  {
    name: "a programming language",
    grammar: program,
    right: ["x = f(1 + y);", "if (a<=g()) {print(((a)));}"],
    wrong: ["x = ;", "if (a) {}", "f(x"],
  },
  {
    name: "chess",
    grammar: chess,
    right: ["1. e4 e5\n2. Nf3 Nc6\n", "1. O-O exd5+\n"],
    wrong: ["1. e4\n", "1. e9 e5\n"],
  },
];
