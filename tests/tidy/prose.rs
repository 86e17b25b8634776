//! Checks of names and prose: retired words, first words of doc comments, tuples, and public types with one name.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use testkit::tree::{has_extension, is_test};

use super::public::parsed;
use super::{files, lines_of, read, report};

/// First words of a doc comment that hide its subject.
const NO_BEGINNINGS: &[&str] = &["what", "who", "whoever", "whose", "of", "that", "where", "how"];

/// Names that several public types share, each with the reason.
const SHARED_NAMES: &[(&str, &str)] = &[
    ("Error", "one per crate, as `std::io::Error`"),
    ("Result", "the alias next to each `Error`"),
    ("Config", "of a module"),
    ("Plan", "of a run, and of a preparation"),
    ("Otlp", "the exporter, and its replacement without the feature `otlp`"),
];

/// Returns whether a file may contain retired words.
fn may_use_old_words(path: &str) -> bool {
    ["CHANGELOG.md", "src/config/renamed.rs", "tests/tidy/retired_words.txt", "tests/tidy/prose.rs"].contains(&path)
        || path.starts_with("tests/golden/")
        || path.starts_with("docs/pictures/")
}

#[test]
fn retired_words_are_not_used() {
    let list = read("tests/tidy/retired_words.txt");
    let retired: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
    let is_text = |path: &str| {
        ["rs", "md", "js", "toml", "py"].iter().any(|extension| has_extension(path, extension))
            || path.starts_with("scripts/")
    };
    let lines = lines_of(|path| is_text(path) && !may_use_old_words(path));
    let found = lines.flat_map(|(place, line)| {
        let words = format!(" {} ", line.to_lowercase().replace(|it: char| !it.is_alphanumeric() && it != '_', " "));
        let found = retired.iter().filter(move |word| words.contains(&format!(" {word} ")));
        found.map(|word| format!("{place}: `{word}`")).collect::<Vec<_>>()
    });
    report("retired words", "use the term of docs/glossary.md", &found.collect::<Vec<_>>());
}

#[test]
fn doc_comments_begin_with_their_subject() {
    let mut offences = Vec::new();
    for path in files().into_iter().filter(|path| has_extension(path, "rs")) {
        let mut is_inside = false;
        for (number, line) in read(&path).lines().enumerate() {
            let text = line.trim_start();
            let text = text.strip_prefix("///").or_else(|| text.strip_prefix("//!"));
            let first = text.and_then(|text| text.split_whitespace().next()).unwrap_or_default().to_lowercase();
            if !is_inside && NO_BEGINNINGS.contains(&first.as_str()) {
                offences.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
            is_inside = text.is_some();
        }
    }
    let hint = "begin with a noun phrase or a verb in the third person";
    report("doc comments without a subject", hint, &offences);
}

#[test]
fn public_types_have_names_of_one_meaning() {
    let mut places: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in sources() {
        let mut types = Types::default();
        types.visit_file(&parsed(&path, &read(&path)));
        for name in types.0 {
            places.entry(name).or_default().insert(path.clone());
        }
    }
    let is_shared = |name: &String| SHARED_NAMES.iter().any(|(shared, _)| shared == name);
    let several = places.iter().filter(|(name, places)| places.len() > 1 && !is_shared(name));
    let offences: Vec<String> = several.map(|(name, places)| format!("`{name}`: {places:?}")).collect();
    report("public types of one name", "give each its own name, or a reason in SHARED_NAMES", &offences);
}

#[test]
fn public_signatures_have_no_long_tuples() {
    let mut offences = Vec::new();
    for path in sources() {
        let mut tuples = LongTuples::default();
        tuples.visit_file(&parsed(&path, &read(&path)));
        offences.extend(tuples.found.into_iter().map(|name| format!("{path}: `{name}`")));
    }
    report("tuples of more than two items", "make a struct with named fields", &offences);
}

#[test]
fn every_binding_has_a_statement() {
    let mut offences = Vec::new();
    for path in files().into_iter().filter(|path| has_extension(path, "rs") && !path.starts_with("tests/golden")) {
        let mut bindings = ParallelBindings::default();
        bindings.visit_file(&parsed(&path, &read(&path)));
        offences.extend(bindings.found.into_iter().map(|pattern| format!("{path}: `let {pattern}`")));
    }
    report("parallel bindings `let (a, b) = (x, y)`", "write one `let` for each, unless they swap values", &offences);
}

fn sources() -> impl Iterator<Item = String> {
    let is_product = |path: &String| has_extension(path, "rs") && path.contains("src/") && !path.starts_with("tests/");
    files().into_iter().filter(move |path| is_product(path) && !is_test(path))
}

/// Collector of `pub` types at module level.
#[derive(Default)]
struct Types(BTreeSet<String>);

impl<'ast> Visit<'ast> for Types {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let found = match item {
            syn::Item::Struct(it) => Some((&it.vis, &it.ident)),
            syn::Item::Enum(it) => Some((&it.vis, &it.ident)),
            syn::Item::Trait(it) => Some((&it.vis, &it.ident)),
            syn::Item::Type(it) => Some((&it.vis, &it.ident)),
            _ => None,
        };
        if let Some((syn::Visibility::Public(_), name)) = found {
            self.0.insert(name.to_string());
        }
        if !is_for_tests(item) {
            visit::visit_item(self, item);
        }
    }
}

/// Collector of public functions and fields with a tuple of more than two items.
#[derive(Default)]
struct LongTuples {
    found: Vec<String>,
}

impl<'ast> Visit<'ast> for LongTuples {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_for_tests(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.check_signature(&item.vis, &item.sig);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.check_signature(&item.vis, &item.sig);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if has_long_tuple(&field.ty) {
            self.found.push(field.ident.as_ref().map_or_else(|| "a field".to_owned(), ToString::to_string));
        }
    }
}

impl LongTuples {
    fn check_signature(&mut self, visibility: &syn::Visibility, signature: &syn::Signature) {
        let mut types: Vec<&syn::Type> = signature
            .inputs
            .iter()
            .filter_map(|input| match input {
                syn::FnArg::Typed(typed) => Some(&*typed.ty),
                syn::FnArg::Receiver(_) => None,
            })
            .collect();
        if let syn::ReturnType::Type(_, returned) = &signature.output {
            types.push(returned);
        }
        if !matches!(visibility, syn::Visibility::Inherited) && types.into_iter().any(has_long_tuple) {
            self.found.push(signature.ident.to_string());
        }
    }
}

/// Collector of `let (a, b) = (x, y)`, except where the values read the names, as in a swap.
#[derive(Default)]
struct ParallelBindings {
    found: Vec<String>,
}

impl<'ast> Visit<'ast> for ParallelBindings {
    fn visit_local(&mut self, local: &'ast syn::Local) {
        visit::visit_local(self, local);
        let (syn::Pat::Tuple(pattern), Some(syn::LocalInit { expr, diverge: None, .. })) = (&local.pat, &local.init)
        else {
            return;
        };
        let syn::Expr::Tuple(values) = &**expr else { return };
        let names: Option<Vec<String>> = pattern.elems.iter().map(name).collect();
        let mut read = Identifiers::default();
        read.visit_expr_tuple(values);
        if let Some(names) = names.filter(|names| names.iter().all(|name| !read.0.contains(name))) {
            self.found.push(format!("({})", names.join(", ")));
        }
    }
}

/// Returns the name that a pattern binds, `_` for none; nothing for a pattern with parts.
fn name(pattern: &syn::Pat) -> Option<String> {
    match pattern {
        syn::Pat::Ident(it) => Some(it.ident.to_string()),
        syn::Pat::Wild(_) => Some("_".to_owned()),
        _ => None,
    }
}

/// Collector of all identifiers, also in macros.
#[derive(Default)]
struct Identifiers(BTreeSet<String>);

impl<'ast> Visit<'ast> for Identifiers {
    fn visit_ident(&mut self, ident: &'ast syn::Ident) {
        self.0.insert(ident.to_string());
    }

    fn visit_macro(&mut self, it: &'ast syn::Macro) {
        self.visit_tokens(it.tokens.clone());
    }
}

impl Identifiers {
    fn visit_tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.visit_tokens(group.stream()),
                TokenTree::Ident(ident) => drop(self.0.insert(ident.to_string())),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
}

fn has_long_tuple(ty: &syn::Type) -> bool {
    struct Finder(bool);
    impl<'ast> Visit<'ast> for Finder {
        fn visit_type_tuple(&mut self, tuple: &'ast syn::TypeTuple) {
            self.0 |= tuple.elems.len() > 2;
            visit::visit_type_tuple(self, tuple);
        }
    }
    let mut finder = Finder(false);
    finder.visit_type(ty);
    finder.0
}

fn is_for_tests(item: &syn::Item) -> bool {
    let syn::Item::Mod(module) = item else { return false };
    module.attrs.iter().any(|attribute| {
        matches!(&attribute.meta, syn::Meta::List(list) if list.path.is_ident("cfg") && list.tokens.to_string() == "test")
    })
}
