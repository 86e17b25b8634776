//! Public items of a package, and the unused ones among them.
//!
//! # Definition
//! An item is public if it is `pub` at module level and not behind `#[cfg(test)]`. It is *used* in two cases. First,
//! a file outside the package's sources that names the package contains the item's name. Second, a used item of its
//! package names it in a signature, in the type of a public field, constant or associated type, in a variant, or in a
//! bound: the caller of a function must be able to name its result. Bodies and private fields do not count. Items are
//! identified by name only. Declarations of a macro count as used, except those of a `thread_local!` without `pub`.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use testkit::tree;

use super::imports;

/// Sources by path.
pub(crate) type Sources = BTreeMap<String, String>;

/// Identifiers of each file.
pub(crate) type Words = BTreeMap<String, BTreeSet<String>>;

/// Public items of one package, as `(path, name)`.
#[derive(Clone, Default)]
pub(crate) struct Public {
    pub(crate) all: BTreeSet<(String, String)>,
    /// Items without a use outside.
    pub(crate) unnamed: BTreeSet<(String, String)>,
    pub(crate) unused: BTreeSet<(String, String)>,
}

impl Public {
    /// Analyzes the library `name` with its sources in `folder`. `words` are the identifiers of all files that may
    /// use it.
    pub(crate) fn of_package(folder: &str, name: &str, sources: &Sources, words: &Words) -> Self {
        let mut declared = Declared::default();
        for (path, source) in sources.iter().filter(|(path, _)| is_below(path, folder) && !tree::is_test(path)) {
            path.clone_into(&mut declared.path);
            declared.visit_file(&parsed(path, source));
        }
        // The program of a package counts as outside of its library.
        let program = format!("{folder}/main.rs");
        let is_outside = |path: &String| !is_below(path, folder) || *path == program;
        let outside = words.iter().filter(|(path, words)| is_outside(path) && words.contains(name));
        let named: BTreeSet<&String> = outside.flat_map(|(_, words)| words).collect();
        let among = |names: &BTreeSet<&String>| {
            declared.items.iter().filter(|(_, name)| !names.contains(name)).cloned().collect::<BTreeSet<_>>()
        };
        let unnamed = among(&named);
        let mut used: BTreeSet<&String> = named.into_iter().chain(&declared.by_macros).collect();
        let mut ahead: Vec<_> = used.iter().copied().collect();
        while let Some(name) = ahead.pop() {
            ahead.extend(declared.named_by.get(name).into_iter().flatten().filter(|named| used.insert(*named)));
        }
        let unused = among(&used);
        Self { all: declared.items, unnamed, unused }
    }
}

/// Returns the identifiers of every file.
pub(crate) fn words(sources: &Sources) -> Words {
    let tokens = |path, source: &String| source.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
    sources.iter().map(|(path, source)| (path.clone(), words_of(tokens(path, source)))).collect()
}

pub(crate) fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

pub(crate) fn parsed(path: &str, source: &str) -> syn::File {
    syn::parse_file(source).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn words_of(tokens: TokenStream) -> BTreeSet<String> {
    fn collect(tokens: TokenStream, words: &mut BTreeSet<String>) {
        for token in tokens {
            match token {
                TokenTree::Ident(word) => drop(words.insert(word.to_string())),
                TokenTree::Group(group) => collect(group.stream(), words),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
    let mut words = BTreeSet::new();
    collect(tokens, &mut words);
    words
}

/// Declarations of a package.
#[derive(Default)]
struct Declared {
    path: String,
    items: BTreeSet<(String, String)>,
    /// Names in the public part of each item.
    named_by: BTreeMap<String, BTreeSet<String>>,
    /// Identifiers in macro calls among the items: `registry!` and similar macros declare public items.
    by_macros: BTreeSet<String>,
}

impl Declared {
    fn item(&mut self, visibility: &syn::Visibility, name: &syn::Ident, record: impl FnOnce(&mut NamedItems)) {
        if is_public(visibility) {
            self.items.insert((self.path.clone(), name.to_string()));
            self.record(name.to_string(), record);
        }
    }

    fn record(&mut self, name: String, record: impl FnOnce(&mut NamedItems)) {
        let mut named = NamedItems::default();
        record(&mut named);
        self.named_by.entry(name).or_default().append(&mut named.names);
    }
}

impl<'ast> Visit<'ast> for Declared {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if imports::is_for_tests(imports::attributes(item)) {
            return;
        }
        match item {
            syn::Item::Const(it) => self.item(&it.vis, &it.ident, |named| named.visit_type(&it.ty)),
            syn::Item::Enum(it) => self.item(&it.vis, &it.ident, |named| named.visit_item_enum(it)),
            syn::Item::Fn(it) => self.item(&it.vis, &it.sig.ident, |named| named.visit_signature(&it.sig)),
            syn::Item::Static(it) => self.item(&it.vis, &it.ident, |named| named.visit_type(&it.ty)),
            syn::Item::Struct(it) => self.item(&it.vis, &it.ident, |named| {
                named.visit_generics(&it.generics);
                it.fields.iter().filter(|field| is_public(&field.vis)).for_each(|field| named.visit_field(field));
            }),
            syn::Item::Trait(it) => self.item(&it.vis, &it.ident, |named| named.visit_item_trait(it)),
            syn::Item::Type(it) => self.item(&it.vis, &it.ident, |named| named.visit_item_type(it)),
            syn::Item::Impl(block) => {
                if let Some(name) = name_of(&block.self_ty) {
                    self.record(name, |named| named.block(block));
                }
            }
            syn::Item::Macro(called) => {
                let mut words = words_of(called.mac.tokens.clone());
                // A `thread_local!` without `pub` declares no public item.
                if !called.mac.path.is_ident("thread_local") || words.contains("pub") {
                    self.by_macros.append(&mut words);
                }
            }
            _ => {}
        }
        visit::visit_item(self, item);
    }
}

/// Names in a declaration.
#[derive(Default)]
struct NamedItems {
    names: BTreeSet<String>,
}

impl NamedItems {
    /// Collects the public functions and constants of an `impl`, and the associated types of a trait `impl`.
    fn block(&mut self, block: &syn::ItemImpl) {
        for item in &block.items {
            match item {
                syn::ImplItem::Fn(it) if is_public(&it.vis) => self.visit_signature(&it.sig),
                syn::ImplItem::Const(it) if is_public(&it.vis) => self.visit_type(&it.ty),
                syn::ImplItem::Type(it) => self.visit_type(&it.ty),
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for NamedItems {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.names.extend(path.segments.iter().map(|segment| segment.ident.to_string()));
        visit::visit_path(self, path);
    }

    fn visit_block(&mut self, _: &'ast syn::Block) {}

    fn visit_expr(&mut self, _: &'ast syn::Expr) {}

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

fn name_of(named: &syn::Type) -> Option<String> {
    match named {
        syn::Type::Path(named) => named.path.segments.last().map(|last| last.ident.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the unused items of package `a`, given its file and that of package `b`.
    fn unused(a: &str, b: &str) -> Vec<String> {
        let sources = [("a/src/lib.rs", a), ("b/src/lib.rs", b)];
        let sources = sources.map(|(path, source)| (path.to_owned(), source.to_owned())).into();
        Public::of_package("a/src", "a", &sources, &words(&sources)).unused.into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn names_in_public_parts_of_used_items_are_used() {
        let a = "pub struct Asked { pub shown: Vec<Shown>, hidden: Hidden }
                 pub struct Shown; pub struct Hidden; pub struct Given; pub struct Inner; pub struct Lost;
                 impl Asked { pub fn give(&self) -> Given { Inner } fn lose(&self) -> Lost {} }
                 impl FromStr for Asked { type Err = Why; }
                 pub enum Why { Because(Reason) }
                 pub enum Reason {}
                 pub fn alone(_: Apart) {}
                 pub struct Apart;
                 pub(crate) struct Inside;
                 #[cfg(test)] mod tests { pub struct Test; }";
        assert_eq!(unused(a, "use a::Asked;"), ["Apart", "Hidden", "Inner", "Lost", "alone"]);
        assert_eq!(unused(a, "use other::Asked;").len(), 10, "no file names the package");
        assert_eq!(unused("pub struct A; pub struct B; table! { A }", "use a;"), ["B"]);
        assert_eq!(unused("pub struct A; thread_local! { static HELD: A = A; }", "use a;"), ["A"]);
    }
}
