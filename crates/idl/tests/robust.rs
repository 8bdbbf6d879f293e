//! Extreme input: the compiler must end without a panic, whatever it reads.

use isorb_idl::{MemoryLoader, Options, Outcome, compile_with};
use proptest::prelude::*;
use std::path::Path;

fn compile(text: impl Into<Vec<u8>>) -> Outcome {
    let loader = MemoryLoader::new().with("main.idl", text).with("self.idl", "#include \"main.idl\"\n");
    compile_with(&Options::default(), &loader, Path::new("main.idl"))
}

/// Compiles and shows, since showing must not panic either.
fn survives(text: impl Into<Vec<u8>>) {
    let outcome = compile(text);
    outcome.render(true);
    assert_eq!(outcome.spec.is_none(), outcome.has_errors());
    if let Some(spec) = outcome.spec {
        spec.dump();
        for (id, _) in spec.definitions() {
            spec.all_operations(id);
            spec.is_recursive(id);
            spec.is_variable_length(&isorb_idl::model::Type::Named(id));
            spec.is_local(&isorb_idl::model::Type::Named(id));
        }
    }
}

const WORDS: &[&str] = &[
    "module",
    "interface",
    "valuetype",
    "struct",
    "union",
    "enum",
    "exception",
    "typedef",
    "const",
    "native",
    "local",
    "abstract",
    "custom",
    "truncatable",
    "supports",
    "public",
    "private",
    "factory",
    "oneway",
    "void",
    "in",
    "out",
    "inout",
    "raises",
    "getraises",
    "setraises",
    "context",
    "attribute",
    "readonly",
    "switch",
    "case",
    "default",
    "sequence",
    "string",
    "wstring",
    "fixed",
    "long",
    "short",
    "unsigned",
    "double",
    "float",
    "octet",
    "char",
    "wchar",
    "boolean",
    "any",
    "Object",
    "ValueBase",
    "TRUE",
    "FALSE",
    "typeid",
    "typeprefix",
    "import",
    "A",
    "B",
    "C",
    "a",
    "b",
    "_A",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "<",
    ">",
    ">>",
    "<<",
    ";",
    ";",
    ";",
    ":",
    "::",
    ",",
    "=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "~",
    "|",
    "^",
    "&",
    "@",
    "0",
    "1",
    "2",
    "0x7f",
    "1.5",
    "2.5d",
    "'x'",
    "L'x'",
    "\"s\"",
    "L\"s\"",
    "\n#define",
    "\n#define A(x, y) x ## y #x A B",
    "\n#undef",
    "\n#if",
    "\n#ifdef",
    "\n#elif",
    "\n#else\n",
    "\n#endif\n",
    "\n#include \"self.idl\"\n",
    "\n#pragma prefix",
    "\n#pragma ID",
    "\n#pragma version",
    "defined",
    "##",
    "#",
    "\\\n",
    "//",
    "/*",
    "*/",
    "\n",
    "struct S { long x; };",
    "interface I : A, B { };",
    "struct A",
    "sequence<A>",
    "CORBA",
];

/// `PROPTEST_CASES` in the environment asks for more.
fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(2000);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn random_words_do_no_harm(words in prop::collection::vec(prop::sample::select(WORDS), 0..60)) {
        survives(words.join(" "));
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        survives(bytes);
    }

    /// Good text with a piece cut out, doubled or exchanged reaches deeper than noise does.
    #[test]
    fn damaged_specifications_do_no_harm(
        which in 0..CORPUS.len(), start in 0.0..1.0f64, length in 0..40usize, word in prop::sample::select(WORDS),
        keep in any::<bool>(),
    ) {
        let text = CORPUS[which];
        let at = floor(text, (text.len() as f64 * start) as usize);
        let end = floor(text, at + length);
        let tail = if keep { &text[at..] } else { &text[end..] };
        survives(format!("{} {word} {tail}", &text[..at]));
    }
}

const CORPUS: &[&str] = &[
    include_str!("golden/good/modules.idl"),
    include_str!("golden/good/types.idl"),
    include_str!("golden/good/constants.idl"),
    include_str!("golden/good/interfaces.idl"),
    include_str!("golden/good/values.idl"),
    include_str!("golden/good/preprocessor.idl"),
    include_str!("golden/bad/names.idl"),
    include_str!("golden/bad/syntax.idl"),
];

fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Says that a text is refused with this message among others.
fn refused(text: &str, message: &str) {
    let outcome = compile(text);
    let shown = outcome.render(false);
    assert!(outcome.has_errors() && shown.contains(message), "{message} is not in\n{shown}");
}

#[test]
fn deep_nesting_is_refused() {
    let n = 20_000;
    refused(&("module M { ".repeat(n) + &"};".repeat(n)), "nested too deeply");
    refused(&format!("const long x = {}1{};", "(".repeat(n), ")".repeat(n)), "nested too deeply");
    refused(&format!("typedef {}long{} T;", "sequence<".repeat(n), ">".repeat(n)), "nested too deeply");
    refused(&"struct S { struct ".repeat(n), "expected a name");
    refused(&(0..n).map(|i| format!("struct S{i} {{ ")).collect::<String>(), "nested too deeply");
    refused(&format!("#if {}1{}\n#endif", "(".repeat(n), ")".repeat(n)), "nested too deeply");
    refused(&"#if 1\n".repeat(n), "nested too deeply");
    refused(
        &format!("#define f(x) x\nconst long x = {}1{};", "f(".repeat(1_000), ")".repeat(1_000)),
        "nested too deeply",
    );
    refused(&format!("@a({}1{}) struct S {{ long x; }};", "(".repeat(n), ")".repeat(n)), "nested too deeply");
}

#[test]
fn long_flat_input_is_fine() {
    let n = 20_000;
    assert!(!compile(format!("const long long x = 1{};", " + 1".repeat(n))).has_errors());
    assert!(!compile(format!("#if {}1\nconst long x = 1;\n#endif", "!!-~".repeat(n))).has_errors());
    let types: String = (0..n).map(|i| format!("struct S{i} {{ long a, b; string c; }};\n")).collect();
    assert!(!compile(types).has_errors());
}

#[test]
fn chains_of_definitions_are_bounded() {
    let structs: String = (1..5_000).map(|i| format!("struct S{i} {{ S{} a, b; }};", i - 1)).collect();
    refused(&format!("struct S0 {{ long x; }};{structs}"), "nested too deeply");
    let aliases: String = (1..5_000).map(|i| format!("typedef T{} T{i};", i - 1)).collect();
    assert!(!compile(format!("typedef long T0;{aliases}")).has_errors(), "an alias is no level");
    let sequences: String = (1..5_000).map(|i| format!("typedef sequence<T{}> T{i};", i - 1)).collect();
    refused(&format!("typedef long T0;{sequences}"), "nested too deeply");
    let bases: String = (1..5_000).map(|i| format!("interface I{i} : I{} {{ }};", i - 1)).collect();
    refused(&format!("interface I0 {{ }};{bases}"), "more than 512 bases");
    // Wide and shared, but not deep: 2^40 paths through 80 interfaces.
    let lattice: String = (1..40)
        .map(|i| {
            let j = i - 1;
            format!("interface A{i} : A{j}, B{j} {{ }}; interface B{i} : A{j}, B{j} {{ }};")
        })
        .collect();
    survives(format!("interface A0 {{ void f(); typedef long T; }}; interface B0 {{ void g(); }};{lattice}"));
}

#[test]
fn floods_of_errors_are_cut() {
    let outcome = compile("struct S { Missing m; };\n".repeat(50_000));
    assert!(outcome.diagnostics.len() <= 101, "{}", outcome.diagnostics.len());
    let last = outcome.diagnostics.last().map(|d| d.message.clone()).unwrap_or_default();
    assert!(last.contains("more errors"), "{last}");
}

#[test]
fn macro_bombs_end() {
    let doubling: String = (1..64).map(|i| format!("#define A{i} A{} A{}\n", i - 1, i - 1)).collect();
    refused(&format!("#define A0 x\n{doubling}A63"), "expand to too much");
    let nested: String =
        (1..64).map(|i| format!("#define F{i}(x) F{}(x x) F{}(x x)\n", i - 1, i - 1)).collect();
    refused(&format!("#define F0(x) x\n{nested}F63(a)"), "expand to too much");
    let pasting: String = (1..40).map(|i| format!("#define P{i}(x) P{}(x##x)\n", i - 1)).collect();
    refused(&format!("#define P0(x) x\n{pasting}P39(abcdefgh)"), "too long");
    let empty: String = (1..64).map(|i| format!("#define E{i} E{} E{}\n", i - 1, i - 1)).collect();
    refused(&format!("#define E0\n{empty}E63"), "expand to too much");
}

#[test]
fn includes_without_end_are_refused() {
    refused("#include \"main.idl\"\n", "nested too deeply");
    refused("#include \"self.idl\"\n#include \"self.idl\"\n", "nested too deeply");
}

#[test]
fn other_encodings_are_read() {
    // ISO 8859-1, which is no UTF-8.
    let outcome = compile(b"// Gr\xf6\xdfe\nconst string s = \"\xe9\";".to_vec());
    let dump = outcome.spec.map(|s| s.dump()).unwrap_or_default();
    assert!(dump.contains("\\xe9"), "{dump}");
    // UTF-8 with a byte order mark.
    assert!(!compile("\u{feff}const string s = \"\u{e9}\";").has_errors());
    // UTF-16 is nothing that IDL has, and a NUL no character of it.
    assert!(compile(b"m\0o\0d\0".to_vec()).has_errors());
}

#[test]
fn line_ends_of_all_systems_work() {
    let outcome = compile("#define A \\\r\n 1\r\nconst long x = A;\r\n// c\r\nconst short y = 70000;\r\n");
    assert!(outcome.render(false).contains("main.idl:5:17"), "{}", outcome.render(false));
}

#[test]
fn a_missing_main_file_is_an_error() {
    let outcome = compile_with(&Options::default(), &MemoryLoader::new(), Path::new("none.idl"));
    assert!(outcome.has_errors());
    assert!(outcome.render(false).contains("cannot read `none.idl`"));
}

#[test]
fn a_missing_file_is_refused() {
    let outcome = isorb_idl::compile(&Options::default(), Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(outcome.render(false).contains("not a regular file"), "{}", outcome.render(false));
}
