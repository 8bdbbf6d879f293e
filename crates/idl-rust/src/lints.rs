//! Lint attributes for IDL names and signatures that would cause warnings.
//!
//! Names and signatures come from IDL and cannot be changed, so lints about them are of no use.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use std::collections::BTreeSet;
use syn::{
    Attribute, Fields, File, FnArg, ImplItem, Item, Pat, ReturnType, Signature, TraitItem, Type, parse_quote,
};

/// A marker for errors that clippy finds too large to return by value. It is an attribute, so that
/// it cannot clash with an IDL name.
const LARGE: &str = "isorb_large_error";

/// The marker of a large error type.
pub(crate) fn large_error_mark() -> TokenStream {
    let mark = format_ident!("{LARGE}");
    quote!(#[#mark])
}

/// Adds the attributes to a whole file.
pub(crate) fn allow(file: &mut File) {
    let mut large = BTreeSet::new();
    file.items.iter_mut().for_each(|item| take_marks(item, &mut large));
    let pass = Pass { large };
    for item in &mut file.items {
        pass.item(item, None);
        // A program does not use all of its IDL, and in a binary each unused part would be a
        // warning.
        if let Item::Mod(_)
        | Item::Struct(_)
        | Item::Enum(_)
        | Item::Trait(_)
        | Item::Const(_)
        | Item::Type(_) = item
        {
            add(attributes(item), ["dead_code"].into());
        } else if let Item::Impl(block) = item
            && block.trait_.is_none()
        {
            add(&mut block.attrs, ["dead_code"].into());
        }
    }
}

fn take_marks(item: &mut Item, large: &mut BTreeSet<String>) {
    match item {
        Item::Mod(module) => {
            module.content.iter_mut().flat_map(|(_, items)| items).for_each(|item| take_marks(item, large));
        }
        Item::Enum(definition) => {
            let before = definition.attrs.len();
            definition.attrs.retain(|a| !a.path().is_ident(LARGE));
            if definition.attrs.len() < before {
                large.insert(definition.ident.to_string());
            }
        }
        // An alias of an error enum follows it.
        Item::Type(alias) => {
            if let Type::Path(path) = &*alias.ty
                && path.path.get_ident().is_some_and(|name| large.contains(&name.to_string()))
            {
                large.insert(alias.ident.to_string());
            }
        }
        _ => {}
    }
}

/// Names that clippy considers placeholders.
const PLACEHOLDERS: [&str; 3] = ["foo", "baz", "quux"];

struct Pass {
    large: BTreeSet<String>,
}

type Lints = BTreeSet<&'static str>;

impl Pass {
    fn item(&self, item: &mut Item, parent: Option<&str>) {
        match item {
            Item::Mod(module) => {
                let name = module.ident.to_string();
                if parent == Some(&name) {
                    add(&mut module.attrs, ["clippy::module_inception"].into());
                }
                for item in module.content.iter_mut().flat_map(|(_, items)| items) {
                    self.item(item, Some(&name));
                }
            }
            Item::Struct(definition) => {
                let mut lints = type_name(&definition.ident.to_string());
                if let Fields::Named(fields) = &definition.fields
                    && fields.named.iter().any(|field| is_complex(&field.ty))
                {
                    lints.insert("clippy::type_complexity");
                }
                add(&mut definition.attrs, lints);
            }
            Item::Enum(definition) => {
                let name = definition.ident.to_string();
                let mut lints = type_name(&name);
                let variants: Vec<String> = definition.variants.iter().map(|v| v.ident.to_string()).collect();
                variants.iter().for_each(|variant| lints.append(&mut type_name(variant)));
                if look_alike(&name, &variants) {
                    lints.insert("clippy::enum_variant_names");
                }
                add(&mut definition.attrs, lints);
            }
            Item::Type(alias) => add(&mut alias.attrs, type_name(&alias.ident.to_string())),
            Item::Trait(definition) => {
                let mut lints = type_name(&definition.ident.to_string());
                for item in &mut definition.items {
                    if let TraitItem::Fn(method) = item {
                        let mut own = self.signature(&method.sig);
                        if method.sig.ident == "len" {
                            lints.insert("clippy::len_without_is_empty");
                        }
                        own.append(&mut method_name(&method.sig, false));
                        add(&mut method.attrs, own);
                    }
                }
                add(&mut definition.attrs, lints);
            }
            Item::Impl(block) if block.trait_.is_none() => {
                let mut lints = Lints::new();
                for item in &mut block.items {
                    if let ImplItem::Fn(method) = item {
                        let mut own = self.signature(&method.sig);
                        own.append(&mut method_name(&method.sig, true));
                        if method.sig.ident == "len" {
                            lints.insert("clippy::len_without_is_empty");
                        }
                        add(&mut method.attrs, own);
                    }
                }
                add(&mut block.attrs, lints);
            }
            Item::Fn(function) => {
                let mut lints = self.signature(&function.sig);
                if mentions(function.block.to_token_stream(), &PLACEHOLDERS.map(str::to_owned).into()) {
                    lints.insert("clippy::disallowed_names");
                }
                add(&mut function.attrs, lints);
            }
            _ => {}
        }
    }

    fn signature(&self, signature: &Signature) -> Lints {
        let mut lints = Lints::new();
        if signature.inputs.len() > 7 {
            lints.insert("clippy::too_many_arguments");
        }
        for input in &signature.inputs {
            let FnArg::Typed(input) = input else { continue };
            if is_complex(&input.ty) {
                lints.insert("clippy::type_complexity");
            }
            if let Pat::Ident(name) = &*input.pat
                && PLACEHOLDERS.iter().any(|bad| name.ident == bad)
            {
                lints.insert("clippy::disallowed_names");
            }
        }
        if let ReturnType::Type(_, ty) = &signature.output {
            if is_complex(ty) {
                lints.insert("clippy::type_complexity");
            }
            if mentions(ty.to_token_stream(), &self.large) {
                lints.insert("clippy::result_large_err");
            }
        }
        lints
    }
}

fn mentions(tokens: TokenStream, names: &BTreeSet<String>) -> bool {
    !names.is_empty()
        && tokens.into_iter().any(|token| match token {
            proc_macro2::TokenTree::Group(group) => mentions(group.stream(), names),
            proc_macro2::TokenTree::Ident(ident) => names.contains(&ident.to_string()),
            _ => false,
        })
}

/// Lints about methods with a conventional name of another meaning.
fn method_name(signature: &Signature, inherent: bool) -> Lints {
    /// Methods of standard traits that an operation could be mistaken for.
    const STANDARD: &[&str] = &[
        "add",
        "as_mut",
        "as_ref",
        "bitand",
        "bitor",
        "bitxor",
        "borrow",
        "borrow_mut",
        "clone",
        "cmp",
        "default",
        "deref",
        "deref_mut",
        "div",
        "drop",
        "eq",
        "from_iter",
        "from_str",
        "hash",
        "index",
        "index_mut",
        "into_iter",
        "mul",
        "neg",
        "next",
        "not",
        "rem",
        "shl",
        "shr",
        "sub",
    ];
    let name = signature.ident.to_string();
    let mut lints = Lints::new();
    if inherent && STANDARD.contains(&name.as_str()) {
        lints.insert("clippy::should_implement_trait");
    }
    if name == "new" {
        lints.insert("clippy::new_ret_no_self");
        lints.insert("clippy::wrong_self_convention");
    }
    if ["from_", "into_"].iter().any(|start| name.starts_with(start))
        || ["to_", "as_"].iter().any(|start| name.starts_with(start) && name.ends_with("_mut"))
    {
        lints.insert("clippy::wrong_self_convention");
    }
    lints
}

/// Lints about the name of a type or variant.
fn type_name(name: &str) -> Lints {
    let mut lints = Lints::new();
    let core = name.trim_matches('_');
    if core.starts_with(|c: char| c.is_ascii_lowercase()) || core.contains('_') {
        lints.insert("non_camel_case_types");
    }
    if name.len() > 2 && name.bytes().all(|b| b.is_ascii_uppercase()) {
        lints.insert("clippy::upper_case_acronyms");
    }
    lints
}

/// Whether the variants share a word at their beginning or end, or repeat the name of the enum.
fn look_alike(name: &str, variants: &[String]) -> bool {
    let name = name.to_ascii_lowercase();
    let repeats = variants.iter().any(|variant| {
        let variant = variant.to_ascii_lowercase();
        variant.starts_with(&name) || variant.ends_with(&name)
    });
    let words = |variant: &String| {
        let mut words: Vec<String> = Vec::new();
        for c in variant.chars() {
            match words.last_mut() {
                Some(word) if !c.is_ascii_uppercase() => word.push(c),
                _ => words.push(c.to_string()),
            }
        }
        words
    };
    let words: Vec<_> = variants.iter().map(words).collect();
    let shared =
        |of: fn(&Vec<String>) -> Option<&String>| words.windows(2).all(|pair| of(&pair[0]) == of(&pair[1]));
    repeats || variants.len() >= 3 && (shared(|words| words.first()) || shared(|words| words.last()))
}

/// Clippy's limit is 250.
const COMPLEX: u32 = 240;

fn is_complex(ty: &Type) -> bool {
    complexity(ty, 1) > COMPLEX
}

/// The score of clippy's `type_complexity`.
fn complexity(ty: &Type, nest: u32) -> u32 {
    match ty {
        Type::Reference(reference) => nest + complexity(&reference.elem, nest),
        Type::Slice(slice) => 10 * nest + complexity(&slice.elem, nest + 1),
        Type::Array(array) => 10 * nest + complexity(&array.elem, nest + 1),
        Type::Tuple(tuple) => 10 * nest + tuple.elems.iter().map(|ty| complexity(ty, nest + 1)).sum::<u32>(),
        Type::Path(path) => {
            10 * nest + path.path.segments.iter().map(|s| arguments(&s.arguments, nest + 1)).sum::<u32>()
        }
        Type::ImplTrait(bounds) => {
            10 * nest + bounds.bounds.iter().map(|bound| bounded(bound, nest + 1)).sum::<u32>()
        }
        Type::TraitObject(bounds) => {
            20 * nest + bounds.bounds.iter().map(|bound| bounded(bound, nest)).sum::<u32>()
        }
        _ => nest,
    }
}

fn bounded(bound: &syn::TypeParamBound, nest: u32) -> u32 {
    match bound {
        syn::TypeParamBound::Trait(bound) => {
            bound.path.segments.iter().map(|s| arguments(&s.arguments, nest)).sum()
        }
        _ => 0,
    }
}

fn arguments(arguments: &syn::PathArguments, nest: u32) -> u32 {
    let syn::PathArguments::AngleBracketed(arguments) = arguments else { return 0 };
    let types = arguments.args.iter().map(|argument| match argument {
        syn::GenericArgument::Type(ty) => complexity(ty, nest),
        _ => 0,
    });
    types.sum()
}

fn attributes(item: &mut Item) -> &mut Vec<Attribute> {
    static_attributes(item).unwrap_or_else(|| unreachable!("only items with attributes are asked for"))
}

fn static_attributes(item: &mut Item) -> Option<&mut Vec<Attribute>> {
    Some(match item {
        Item::Mod(item) => &mut item.attrs,
        Item::Struct(item) => &mut item.attrs,
        Item::Enum(item) => &mut item.attrs,
        Item::Trait(item) => &mut item.attrs,
        Item::Const(item) => &mut item.attrs,
        Item::Type(item) => &mut item.attrs,
        _ => return None,
    })
}

/// Adds `#[allow(..)]`, merged with lints that are allowed already.
fn add(attributes: &mut Vec<Attribute>, lints: Lints) {
    if lints.is_empty() {
        return;
    }
    let lints = lints.iter().map(|lint| -> syn::Path {
        match lint.split_once("::") {
            Some((tool, lint)) => {
                let (tool, lint) = (format_ident!("{tool}"), format_ident!("{lint}"));
                parse_quote!(#tool::#lint)
            }
            None => {
                let lint = format_ident!("{lint}");
                parse_quote!(#lint)
            }
        }
    });
    let allow: Attribute = parse_quote!(#[allow(#(#lints),*)]);
    let after_docs = attributes.iter().take_while(|a| a.path().is_ident("doc")).count();
    attributes.insert(after_docs, allow);
}
