//! The questions that back ends ask of the model.

use isorb_idl::model::{ConstValue, DefId, DefKind, Spec, Type};
use isorb_idl::{MemoryLoader, Options, compile_with};
use std::path::Path;

fn spec(text: &str) -> Spec {
    let loader = MemoryLoader::new().with("main.idl", text);
    let outcome = compile_with(&Options::default(), &loader, Path::new("main.idl"));
    let shown = outcome.render(false);
    outcome.spec.unwrap_or_else(|| panic!("{shown}"))
}

fn id(spec: &Spec, name: &str) -> DefId {
    spec.find(name).unwrap_or_else(|| panic!("{name} is not defined"))
}

fn names(spec: &Spec, ids: &[DefId]) -> Vec<String> {
    ids.iter().map(|&id| spec.scoped_name(id)).collect()
}

#[test]
fn bases_precede_derived_interfaces_and_appear_once() {
    let spec = spec(
        "interface Root { void r(); }; interface L : Root { void l1(); attribute long l2; };
         interface R : Root { void r1(); }; interface D : L, R { void d1(); };
         abstract interface X { void fx(); }; valuetype B supports X { void fb(); }; valuetype V : B { void fv(); };",
    );
    let d = id(&spec, "D");
    assert_eq!(names(&spec, &spec.all_bases(d)), ["Root", "L", "R"]);
    assert_eq!(names(&spec, &spec.all_operations(d)), ["Root::r", "L::l1", "L::l2", "R::r1", "D::d1"]);
    assert_eq!(names(&spec, &spec.own_operations(d)), ["D::d1"]);
    assert!(spec.is_a(d, id(&spec, "Root")) && spec.is_a(d, d) && !spec.is_a(id(&spec, "Root"), d));
    let v = id(&spec, "V");
    assert_eq!(names(&spec, &spec.all_operations(v)), ["X::fx", "B::fb", "V::fv"]);
}

#[test]
fn variable_length_looks_through_everything() {
    let spec = spec(
        "interface I { }; enum E { a, b }; typedef string Name; typedef long Block[4];
         struct Plain { long x; Block y; E e_; fixed<5, 2> z; };
         struct Owning { Plain p; Name n; };
         union U switch (long) { case 1: Plain p; }; union V switch (long) { case 1: Owning o[2]; };
         struct Holder { I ref; };",
    );
    for (name, variable) in [
        ("E", false),
        ("Block", false),
        ("Plain", false),
        ("U", false),
        ("Name", true),
        ("Owning", true),
        ("V", true),
        ("Holder", true),
        ("I", true),
    ] {
        assert_eq!(spec.is_variable_length(&Type::Named(id(&spec, name))), variable, "{name}");
    }
    assert!(!spec.is_variable_length(&Type::Double));
    assert!(spec.is_variable_length(&Type::Any));
}

#[test]
fn recursion_is_seen_through_sequences_and_aliases() {
    let spec = spec(
        "struct Tree; typedef sequence<Tree> Forest; struct Tree { Forest parts; }; struct User { Tree root; };
         valuetype List { public List next; }; valuetype Flat { public long x; };",
    );
    for (name, recursive) in
        [("Tree", true), ("Forest", true), ("User", false), ("List", true), ("Flat", false)]
    {
        assert_eq!(spec.is_recursive(id(&spec, name)), recursive, "{name}");
    }
}

#[test]
fn local_types_are_known() {
    let spec = spec(
        "local interface L { }; native N; interface I { }; struct S { sequence<L> list; }; typedef S Alias[2];",
    );
    for (name, local) in [("L", true), ("N", true), ("I", false), ("S", true), ("Alias", true)] {
        assert_eq!(spec.is_local(&Type::Named(id(&spec, name))), local, "{name}");
    }
}

#[test]
fn aliases_resolve_to_their_end() {
    let spec = spec("typedef sequence<octet> A; typedef A B; typedef B C; struct S { C c_; };");
    let DefKind::Struct(s) = &spec[id(&spec, "S")].kind else { panic!("S is a struct") };
    assert_eq!(s.members[0].ty, Type::Named(id(&spec, "C")));
    assert_eq!(
        *spec.resolve(&s.members[0].ty),
        Type::Sequence { element: Box::new(Type::Octet), bound: None }
    );
}

#[test]
fn state_is_inherited_first() {
    let spec =
        spec("valuetype A { public long a1; }; valuetype B : A { private long b1; public string b2; };");
    let state = spec.all_state(id(&spec, "B"));
    let names: Vec<&str> = state.iter().map(|s| s.member.name.as_str()).collect();
    assert_eq!(names, ["a1", "b1", "b2"]);
    assert!(state[0].public && !state[1].public);
}

#[test]
fn names_are_found_by_their_path() {
    let spec = spec("module M { enum E { one, two }; interface I { const E which = two; }; };");
    let two = id(&spec, "M::two");
    assert_eq!(spec.path(two), ["M", "two"]);
    let DefKind::Const(c) = &spec[id(&spec, "M::I::which")].kind else { panic!("it is a constant") };
    assert_eq!(c.value, ConstValue::Enumerator(two));
    assert_eq!(spec.find("M::Missing"), None);
    assert_eq!(spec.find(""), None);
}

#[test]
fn origin_of_definitions_and_files_is_known() {
    let embedded = |name: &str| match name {
        "orb.idl" => Some("#include \"base.idl\"\nmodule CORBA { typedef Base::T U; };"),
        "base.idl" => Some("module Base { typedef long T; };"),
        _ => None,
    };
    let loader = MemoryLoader::new()
        .with(
            "dir/main.idl",
            "#include <orb.idl>\n#include \"near.idl\"\nmodule Near { struct S { T x; }; };",
        )
        .with("dir/near.idl", "module Near { typedef CORBA::U T; };")
        // Must not be taken for the file beside the embedded one.
        .with("base.idl", "module Wrong { };");
    let options = Options { embedded: Some(embedded), ..Options::default() };
    let outcome = compile_with(&options, &loader, Path::new("dir/main.idl"));
    let shown = outcome.render(false);
    let spec = outcome.spec.unwrap_or_else(|| panic!("{shown}"));
    let files: Vec<_> = spec.files().iter().map(|f| (f.path.display().to_string(), f.is_embedded)).collect();
    let expected = [("dir/main.idl", false), ("orb.idl", true), ("base.idl", true), ("dir/near.idl", false)];
    assert_eq!(files, expected.map(|(path, embedded)| (path.to_owned(), embedded)));
    assert!(spec[id(&spec, "Near")].in_main_file);
    assert!(!spec[id(&spec, "Near::T")].in_main_file);
    assert!(spec[id(&spec, "Near::S")].in_main_file);
    let near = spec[id(&spec, "Near::T")].location;
    assert_eq!((near.file.index(), near.line, near.column), (3, 1, 32));
    assert_eq!(spec.file(near.file).included_by.map(|f| f.index()), Some(0));
}

#[test]
fn a_definition_from_a_macro_stands_where_the_macro_is_called() {
    let spec =
        spec("#define STRUCT(name) struct name { long x; }\n\n  STRUCT(S);\n#define T typedef long U\n  T;");
    let location = spec[id(&spec, "S")].location;
    assert_eq!((location.line, location.column), (3, 10));
    let location = spec[id(&spec, "U")].location;
    assert_eq!((location.line, location.column), (5, 3));
}

/// A link or `..` leads out of the folders, and is refused; what is inside is found.
#[test]
fn includes_can_be_confined() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    std::fs::create_dir_all(root.join("inside/sub")).unwrap();
    std::fs::create_dir(root.join("given")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(root.join(name), text).unwrap();
    write("outside.idl", "typedef long Outer;");
    write("inside/sub/in.idl", "typedef long Inner;");
    write("given/lib.idl", "#include \"../inside/sub/in.idl\"\n");
    std::os::unix::fs::symlink(root.join("outside.idl"), root.join("inside/link.idl")).unwrap();
    let compile = |include: &str, confined| {
        write("inside/main.idl", &format!("#include \"{include}\"\n"));
        let include_dirs = vec![root.join("given")];
        let options = isorb_idl::Options { include_dirs, confined, ..Default::default() };
        isorb_idl::compile(&options, &root.join("inside/main.idl")).render(false)
    };
    for good in ["sub/in.idl", "sub/../sub/in.idl", "lib.idl"] {
        assert_eq!(compile(good, true), "", "{good}");
    }
    for bad in ["../outside.idl", "link.idl", &root.join("outside.idl").display().to_string()] {
        assert_eq!(compile(bad, false), "", "{bad}");
        let refused = compile(bad, true);
        assert!(refused.contains("includes are confined"), "{refused}");
    }
}

#[test]
fn a_file_that_is_no_idl_is_not_quoted() {
    let main = |name: &str| format!("#include \"{name}\"\nstruct secret {{ long x; }};\n");
    for text in
        ["root:SECRET:0:0", "struct secret { long SECRET };", "#error SECRET", "\"SECRET", "#define A SECRET"]
    {
        for name in ["passwd", "key.pem"] {
            let files = isorb_idl::MemoryLoader::new().with("main.idl", main(name)).with(name, text);
            let shown = isorb_idl::compile_with(&isorb_idl::Options::default(), &files, "main.idl".as_ref());
            let shown = shown.render(false);
            assert!(!shown.contains("SECRET"), "{shown}");
        }
        // The same text in a file with the name of IDL is shown as always.
        let files = isorb_idl::MemoryLoader::new().with("main.idl", main("a.idl")).with("a.idl", text);
        let shown = isorb_idl::compile_with(&isorb_idl::Options::default(), &files, "main.idl".as_ref());
        assert!(shown.render(false).contains("SECRET") || text.starts_with("#define"), "{text}");
    }
}

/// Each broken rule is a warning, an error if the compilation is strict, and nothing where it is
/// allowed; the name of the rule is in the message.
#[test]
fn rules_of_the_field() {
    use isorb_idl::{MemoryLoader, Options, Rule, Severity, compile_with};
    let cases = [
        (Rule::Case, "struct Reading { long x; }; struct S { reading m; };"),
        (Rule::RaisedTwice, "exception X {}; interface I { void f() raises (X, X); };"),
        (Rule::RaisesOrder, "exception X {}; interface I { attribute long a setraises (X) getraises (X); };"),
        (Rule::EarlyVersion, "module M {\n#pragma version S 2.3\nstruct S { long x; };\n};"),
        (Rule::NarrowLiteral, "const wstring s = \"abc\"; const wchar c = 'a';"),
        (Rule::Complement, "const long a = ~0xffff0000; const short b = ~0xffff;"),
        (Rule::BarePrefix, "#pragma prefix omg.org\nstruct S { long x; };"),
        (
            Rule::DeadDefault,
            "union U switch (boolean) { case TRUE: long x; case FALSE: long y; default: long z; };",
        ),
        (Rule::Pseudo, "pseudo interface I { void f(); };"),
    ];
    assert_eq!(cases.len(), Rule::ALL.len());
    for (rule, text) in cases {
        let run = |options: Options, text: &str| {
            compile_with(&options, &MemoryLoader::new().with("a.idl", text), "a.idl".as_ref())
        };
        let lenient = run(Options::default(), text);
        assert!(lenient.spec.is_some(), "{}", lenient.render(false));
        let first = lenient.diagnostics.first().unwrap();
        assert_eq!((first.severity, first.rule), (Severity::Warning, Some(rule)), "{text}");
        assert!(lenient.render(false).contains(&format!("[{}]", rule.name())), "{}", lenient.render(false));
        let strict = || Options { strict: true, ..Options::default() };
        assert!(run(strict(), text).spec.is_none(), "{text}");
        let allowed = run(Options { allow: vec![rule], ..strict() }, text);
        assert!(allowed.spec.is_some() && allowed.diagnostics.is_empty(), "{}", allowed.render(false));
        let by_pragma = run(strict(), &format!("#pragma isorb allow {}\n{text}", rule.name()));
        assert!(by_pragma.spec.is_some(), "{}", by_pragma.render(false));
    }
}

#[test]
fn what_broken_rules_mean() {
    use isorb_idl::model::{ConstValue, DefKind};
    let spec = |text: &str| {
        let files = isorb_idl::MemoryLoader::new().with("a.idl", text);
        isorb_idl::compile_with(&isorb_idl::Options::default(), &files, "a.idl".as_ref()).spec.unwrap()
    };
    let value = |text: &str| {
        let spec = spec(text);
        match &spec[spec.find("c").unwrap()].kind {
            DefKind::Const(constant) => constant.value.clone(),
            _ => panic!(),
        }
    };
    assert_eq!(value("const long c = ~0xffff0000;"), ConstValue::Integer(0xffff));
    assert_eq!(value("const short c = ~0x8000;"), ConstValue::Integer(0x7fff));
    assert_eq!(value("const wstring c = \"a\";"), ConstValue::WString("a".into()));
    let versioned =
        spec("#pragma version M::S 2.3\n#pragma prefix omg.org\nmodule M { struct S { long x; }; };");
    assert_eq!(versioned[versioned.find("M::S").unwrap()].repository_id, "IDL:omg.org/M/S:2.3");
    let union = spec("union c switch (boolean) { case TRUE: long x; case FALSE: long y; default: long z; };");
    let DefKind::Union(union) = &union[union.find("c").unwrap()].kind else { panic!() };
    assert_eq!(union.cases.iter().map(|case| &*case.member.name).collect::<Vec<_>>(), ["x", "y"]);
    let local = spec("pseudo interface c { };");
    assert!(matches!(&local[local.find("c").unwrap()].kind, DefKind::Interface(i) if i.local));
}

/// Twenty thousand aliases of aliases, of which each resolves in one step.
#[test]
fn a_long_chain_of_aliases() {
    let mut text = String::from("typedef long T0;\n");
    for i in 1..20_000 {
        text += &format!("typedef T{} T{i};\n", i - 1);
    }
    text += "struct S { T19999 a; };\nconst T19999 c = 7;\n";
    let files = isorb_idl::MemoryLoader::new().with("a.idl", text);
    let outcome = isorb_idl::compile_with(&isorb_idl::Options::default(), &files, "a.idl".as_ref());
    let spec = outcome.spec.unwrap();
    let last = spec.find("T19999").unwrap();
    assert_eq!(spec.resolve(&isorb_idl::model::Type::Named(last)), &isorb_idl::model::Type::Long);
}
