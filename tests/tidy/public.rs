//! The public items of a package, and those of them that nobody outside has a use for.
//!
//! # Definition
//! An item is public if it is `pub` at module level and not behind `#[cfg(test)]`. It is *used* if a file outside the
//! package's sources that names the package has the item's name among its words, or if a used item of its own package
//! says it: in a signature, in the type of a public field, of a constant or of an associated type, in a variant, in a
//! bound. Who calls a function must be able to name what it gives. Bodies and private fields say nothing. Items are
//! known by their names alone. What a macro declares is taken as used, except by a `thread_local!` without `pub`.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use testkit::tree;

use super::imports;

/// Sources by path.
pub(crate) type Sources = BTreeMap<String, String>;

/// The identifiers of each file.
pub(crate) type Words = BTreeMap<String, BTreeSet<String>>;

/// Public items of one package, as `(path, name)`.
#[derive(Clone, Default)]
pub(crate) struct Public {
    pub(crate) all: BTreeSet<(String, String)>,
    /// Those whose names nobody outside says.
    pub(crate) unnamed: BTreeSet<(String, String)>,
    pub(crate) unused: BTreeSet<(String, String)>,
}

impl Public {
    /// Those of the library `name`, whose sources lie in `folder`; `words` are those of all files that may use it.
    pub(crate) fn of_package(folder: &str, name: &str, sources: &Sources, words: &Words) -> Self {
        let mut declared = Declared::default();
        for (path, source) in sources.iter().filter(|(path, _)| is_below(path, folder) && !tree::is_test(path)) {
            path.clone_into(&mut declared.path);
            declared.visit_file(&parsed(path, source));
        }
        // The program of a package uses its library from outside.
        let program = format!("{folder}/main.rs");
        let is_outside = |path: &String| !is_below(path, folder) || *path == program;
        let outside = words.iter().filter(|(path, words)| is_outside(path) && words.contains(name));
        let said: BTreeSet<&String> = outside.flat_map(|(_, words)| words).collect();
        let among = |names: &BTreeSet<&String>| {
            declared.items.iter().filter(|(_, name)| !names.contains(name)).cloned().collect::<BTreeSet<_>>()
        };
        let unnamed = among(&said);
        let mut used: BTreeSet<&String> = said.into_iter().chain(&declared.by_macros).collect();
        let mut ahead: Vec<_> = used.iter().copied().collect();
        while let Some(name) = ahead.pop() {
            ahead.extend(declared.says.get(name).into_iter().flatten().filter(|said| used.insert(*said)));
        }
        let unused = among(&used);
        Self { all: declared.items, unnamed, unused }
    }
}

/// The words of every file.
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

/// What a package declares.
#[derive(Default)]
struct Declared {
    path: String,
    items: BTreeSet<(String, String)>,
    /// What the public half of each item names.
    says: BTreeMap<String, BTreeSet<String>>,
    /// Words of macros among the items: `registry!` and its like declare what others use.
    by_macros: BTreeSet<String>,
}

impl Declared {
    fn item(&mut self, visibility: &syn::Visibility, name: &syn::Ident, say: impl FnOnce(&mut Said)) {
        if is_public(visibility) {
            self.items.insert((self.path.clone(), name.to_string()));
            self.say(name.to_string(), say);
        }
    }

    fn say(&mut self, name: String, say: impl FnOnce(&mut Said)) {
        let mut said = Said::default();
        say(&mut said);
        self.says.entry(name).or_default().append(&mut said.names);
    }
}

impl<'ast> Visit<'ast> for Declared {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if imports::is_for_tests(imports::attributes(item)) {
            return;
        }
        match item {
            syn::Item::Const(it) => self.item(&it.vis, &it.ident, |said| said.visit_type(&it.ty)),
            syn::Item::Enum(it) => self.item(&it.vis, &it.ident, |said| said.visit_item_enum(it)),
            syn::Item::Fn(it) => self.item(&it.vis, &it.sig.ident, |said| said.visit_signature(&it.sig)),
            syn::Item::Static(it) => self.item(&it.vis, &it.ident, |said| said.visit_type(&it.ty)),
            syn::Item::Struct(it) => self.item(&it.vis, &it.ident, |said| {
                said.visit_generics(&it.generics);
                it.fields.iter().filter(|field| is_public(&field.vis)).for_each(|field| said.visit_field(field));
            }),
            syn::Item::Trait(it) => self.item(&it.vis, &it.ident, |said| said.visit_item_trait(it)),
            syn::Item::Type(it) => self.item(&it.vis, &it.ident, |said| said.visit_item_type(it)),
            syn::Item::Impl(block) => {
                if let Some(name) = name_of(&block.self_ty) {
                    self.say(name, |said| said.block(block));
                }
            }
            syn::Item::Macro(called) => {
                let mut words = words_of(called.mac.tokens.clone());
                // A `thread_local!` without `pub` declares nothing for others.
                if !called.mac.path.is_ident("thread_local") || words.contains("pub") {
                    self.by_macros.append(&mut words);
                }
            }
            _ => {}
        }
        visit::visit_item(self, item);
    }
}

/// The names in a declaration.
#[derive(Default)]
struct Said {
    names: BTreeSet<String>,
}

impl Said {
    /// Of an `impl`: its public functions and constants; of a trait's, what it chooses.
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

impl<'ast> Visit<'ast> for Said {
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

    /// The unused items of package `a`, given its file and that of package `b`.
    fn unused(a: &str, b: &str) -> Vec<String> {
        let sources = [("a/src/lib.rs", a), ("b/src/lib.rs", b)];
        let sources = sources.map(|(path, source)| (path.to_owned(), source.to_owned())).into();
        Public::of_package("a/src", "a", &sources, &words(&sources)).unused.into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn what_a_used_item_says_in_public_is_used() {
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
        assert_eq!(unused(a, "use other::Asked;").len(), 10, "nobody names the package");
        assert_eq!(unused("pub struct A; pub struct B; table! { A }", "use a;"), ["B"]);
        assert_eq!(unused("pub struct A; thread_local! { static HELD: A = A; }", "use a;"), ["A"]);
    }
}
