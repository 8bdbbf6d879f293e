//! No two items of one Rust scope have the same name, whatever the identifiers in the IDL are.

use isorb_idl::{MemoryLoader, compile_with};
use isorb_idl_rust::{Options, generate};
use proptest::prelude::*;
use std::collections::HashSet;
use std::path::Path;
use syn::{ImplItem, Item, TraitItem};

/// Names that are close to each other, to keywords, to what is generated and to what generated code
/// uses.
fn identifier() -> impl Strategy<Value = String> {
    let special = [
        "Self",
        "self_",
        "type",
        "match",
        "Option",
        "Result",
        "Vec",
        "Ok",
        "Some",
        "Encoder",
        "Object_",
        "INTERFACE_",
        "u8",
        "probe",
        "Probe_Ref",
        "ProbeRef",
        "ProbeView",
        "probe_in",
        "serve_probe",
        "call_probe",
        "set_probe",
        "ProbeError",
        "Probe",
        "pROBE",
        "get_probe",
        "S",
        "e",
        "d",
        "cx",
        "scope",
        "result",
        "crate",
        "super",
        "dyn",
        "System",
        "Unlisted",
        "label",
    ];
    prop_oneof![
        proptest::sample::select(special.to_vec()).prop_map(str::to_owned),
        "[a-bA-B]{1,2}(_?[a-bA-B]){0,2}(Ref|View|Error|_in|_)?",
    ]
}

/// Definitions with these names, in one module; which kind each is goes round.
fn idl(names: &[String]) -> String {
    let mut used = HashSet::new();
    let names: Vec<&String> = names.iter().filter(|name| used.insert(name.to_ascii_lowercase())).collect();
    let inner = |from: usize, text: &dyn Fn(usize, &str) -> String| -> String {
        names
            .iter()
            .cycle()
            .skip(from)
            .take(names.len().min(5))
            .enumerate()
            .map(|(i, n)| text(i, n))
            .collect()
    };
    let mut text = String::from("module zzz { exception qqq { string www; };\n");
    for (i, name) in names.iter().enumerate() {
        let outer = name.to_ascii_lowercase();
        let fits = |n: &str| n.to_ascii_lowercase() != outer;
        let part = |format: fn(&str) -> String| {
            inner(i + 1, &|_, n| if fits(n) { format(n) } else { String::new() })
        };
        text += &match i % 6 {
            0 => format!("struct _{name} {{ string www; {} }};\n", part(|n| format!("string _{n}; "))),
            1 => format!(
                "interface _{name} {{ {} }};\n",
                inner(i + 1, &|k, n| match k % 3 {
                    _ if !fits(n) => String::new(),
                    0 => format!("string _{n}(in string _{n}, out string vvv) raises (qqq); "),
                    1 => format!("attribute string _{n}; "),
                    _ => format!("struct _{n} {{ long www; }}; "),
                })
            ),
            2 => format!("enum _{name} {{ {name}Xa, {name}_xb }};\n"),
            3 => format!("typedef sequence<string> _{name};\n"),
            4 => format!("const long _{name} = 1;\n"),
            _ => format!("module _{name} {{ {} }};\n", part(|n| format!("typedef string _{n}; "))),
        };
    }
    text + "};\n"
}

/// The names that an item brings into its scope: structs, enums, traits, modules and aliases,
/// functions and constants.
fn check(items: &[Item], at: &str) {
    let mut seen = HashSet::new();
    let mut methods = HashSet::new();
    for item in items {
        let name = match item {
            Item::Struct(item) => {
                let mut fields = HashSet::new();
                assert!(
                    item.fields.iter().all(|f| f.ident.is_none() || fields.insert(f.ident.clone())),
                    "{at}"
                );
                item.ident.to_string()
            }
            Item::Enum(item) => {
                let mut variants = HashSet::new();
                assert!(
                    item.variants.iter().all(|v| variants.insert(v.ident.clone())),
                    "{at}::{}",
                    item.ident
                );
                item.ident.to_string()
            }
            Item::Trait(item) => {
                let mut methods = HashSet::new();
                for item in &item.items {
                    if let TraitItem::Fn(method) = item {
                        assert!(methods.insert(method.sig.ident.clone()), "{at}: {}", method.sig.ident);
                    }
                }
                item.ident.to_string()
            }
            Item::Mod(item) => {
                let name = item.ident.to_string();
                check(item.content.as_ref().map_or(&[], |(_, items)| items), &format!("{at}::{name}"));
                name
            }
            Item::Type(item) => item.ident.to_string(),
            Item::Const(item) => item.ident.to_string(),
            Item::Static(item) => item.ident.to_string(),
            Item::Fn(item) => item.sig.ident.to_string(),
            Item::Impl(block) if block.trait_.is_none() => {
                let of = &block.self_ty;
                for item in &block.items {
                    if let ImplItem::Fn(method) = item {
                        let name = (quote::quote!(#of).to_string(), method.sig.ident.clone());
                        assert!(methods.insert(name), "{at}: {}", method.sig.ident);
                    }
                }
                continue;
            }
            _ => continue,
        };
        assert!(seen.insert(name.clone()), "{at}::{name} twice");
    }
    // What is imported must not be defined here as well.
    for item in items {
        if let Item::Use(item) = item {
            let imports = quote::quote!(#item).to_string();
            for name in imports
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .filter(|n| *n != "isorb" && *n != "generated")
            {
                assert!(!seen.contains(name), "{at}::{name} is imported and defined");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_two_items_of_a_scope_have_one_name(names in proptest::collection::vec(identifier(), 1..24)) {
        let text = idl(&names);
        let outcome = compile_with(&isorb_idl::Options::default(), &MemoryLoader::new().with("x.idl", text.clone()), Path::new("x.idl"));
        let diagnostics = outcome.render(false);
        prop_assert!(outcome.spec.is_some(), "{text}\n{diagnostics}");
        let rust = generate(&outcome.spec.unwrap(), &Options::new());
        let file = syn::parse_file(&rust);
        prop_assert!(file.is_ok(), "{text}");
        check(&file.unwrap().items, "crate");
    }
}
