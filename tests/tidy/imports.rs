//! Import graph among the files of a package, read from the sources with `syn`.
//!
//! # Graph
//! A node is a file. An edge goes from the file that names an item to the file that *defines* it. Re-exports are
//! followed to the definition: `use super::Name` is an import of the parent only if the parent itself defines `Name`.
//!
//! # Definition
//! Imports are private `use` lines and all paths in code, including macro arguments. Not counted are:
//! - `mod` and `pub use` lines of a parent, which declare and re-export. If the parent's own code uses the name, that
//!   use counts.
//! - lines of a `registry!` table. Its members use the trait in the same file, which is the one accepted cycle: no
//!   code of the parent depends on the table.
//! - a path that ends at a module. Paths to items of the module count.
//! - all code behind `#[cfg(test)]`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use testkit::tree;

/// Place where one file names an item of another file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Import {
    pub(crate) from: String,
    pub(crate) line: usize,
    pub(crate) to: String,
}

/// Returns the imports among the files of one package. `sources` maps paths below `src_folder` to contents. Of
/// several imports between the same two files, the first is returned.
pub(crate) fn imports(src_folder: &str, sources: &BTreeMap<String, String>) -> Vec<Import> {
    let files: Vec<_> = sources.iter().map(|(path, source)| (path, parsed(path, source))).collect();
    let mut package = Package::default();
    for (path, file) in &files {
        package.declare(module_path(src_folder, path), path, &file.items);
    }
    let untested = |path: &str| !package.tests.iter().any(|test| module_path(src_folder, path).starts_with(test));
    let mut found = BTreeMap::new();
    for (path, file) in files.iter().filter(|(path, _)| untested(path)) {
        let mut reader =
            Reader { package: &package, file: path, module: module_path(src_folder, path), found: &mut found };
        reader.visit_file(file);
    }
    found.into_iter().map(|((from, to), line)| Import { from, line, to }).collect()
}

/// Returns the imports of the package with sources in `folder` of the tree `root`.
pub(crate) fn of_package(root: &Path, folder: &str) -> Vec<Import> {
    let sources = tree::files(root).into_iter().filter(|path| path.starts_with(&format!("{folder}/")));
    let sources =
        sources.filter(|path| tree::has_extension(path, "rs")).map(|path| (path.clone(), tree::read(root, &path)));
    imports(folder, &sources.collect())
}

fn parsed(path: &str, source: &str) -> syn::File {
    syn::parse_file(source).unwrap_or_else(|error| panic!("{path}:{}: {error}", error.span().start().line))
}

/// Module path from the package root: `crate::views::mask` is `["views", "mask"]`.
type ModulePath = Vec<String>;

fn module_path(src_folder: &str, file: &str) -> ModulePath {
    let below = file.strip_prefix(src_folder).unwrap_or(file).trim_matches('/').trim_end_matches(".rs");
    let mut names: ModulePath = below.split('/').map(str::to_owned).collect();
    if names.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        names.pop();
    }
    names
}

#[derive(Default)]
struct Package {
    modules: BTreeMap<ModulePath, Module>,
    tests: BTreeSet<ModulePath>,
}

struct Module {
    file: String,
    /// Names that its `use` lines bind, with the paths as written.
    bound: BTreeMap<String, ModulePath>,
}

impl Package {
    /// Registers a module and its inline modules.
    fn declare(&mut self, path: ModulePath, file: &str, items: &[syn::Item]) {
        let mut collector = Uses::default();
        items.iter().filter(|item| !is_for_tests(attributes(item))).for_each(|item| collector.visit_item(item));
        let named = collector.leaves.into_iter().filter(|leaf| !leaf.is_glob);
        let bound = named.map(|leaf| (leaf.name, leaf.path)).collect();
        for item in items {
            if let syn::Item::Mod(module) = item {
                let below = child(&path, &module.ident.to_string());
                if is_for_tests(&module.attrs) {
                    self.tests.insert(below);
                } else if let Some((_, items)) = &module.content {
                    self.declare(below, file, items);
                }
            }
        }
        self.modules.insert(path, Module { file: file.to_owned(), bound });
    }

    /// Resolves a path written in `module` from the package root. `None` if it leads to another crate.
    fn absolute(&self, module: &[String], written: &[String]) -> Option<ModulePath> {
        let mut base = module.to_vec();
        let mut rest = written;
        match rest.first()?.as_str() {
            "crate" => {
                base.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|name| name == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
            }
            name => {
                let bound = self.modules.get(module).and_then(|here| here.bound.get(name));
                // `use rand;` and `use log::log` bind the first name of the same path, which is another crate.
                let is_alias = bound.is_some_and(|path| path != written);
                if !is_alias && !self.modules.contains_key(&child(module, name)) {
                    return None;
                }
            }
        }
        base.extend(rest.iter().cloned());
        Some(base)
    }

    /// Returns the file that defines the target of `path`. `None` for modules and items of other crates.
    fn definer(&self, path: &[String]) -> Option<&str> {
        let mut at = Vec::new();
        for (index, name) in path.iter().enumerate() {
            let is_last = index + 1 == path.len();
            let module = self.modules.get(&at)?;
            let below = child(&at, name);
            let bound = module.bound.get(name);
            // A name can be a module and a re-exported function. At the end of a path it is the function.
            if self.modules.contains_key(&below) && !(is_last && bound.is_some()) {
                at = below;
                continue;
            }
            let Some(bound) = bound else {
                return Some(&module.file);
            };
            let mut next = self.absolute(&at, bound)?;
            next.extend(path[index + 1..].iter().cloned());
            return self.definer(&next);
        }
        None
    }
}

fn child(module: &[String], name: &str) -> ModulePath {
    [module, &[name.to_owned()]].concat()
}

/// Visitor that collects the names in the code of one file.
struct Reader<'a> {
    package: &'a Package,
    file: &'a str,
    module: ModulePath,
    found: &'a mut BTreeMap<(String, String), usize>,
}

impl Reader<'_> {
    fn note(&mut self, written: &[String], line: usize) {
        let path = self.package.absolute(&self.module, written);
        if let Some(to) = path.and_then(|path| self.package.definer(&path)).filter(|to| *to != self.file) {
            let first = self.found.entry((self.file.to_owned(), to.to_owned())).or_insert(line);
            *first = line.min(*first);
        }
    }

    /// Collects paths in macro arguments: identifiers separated by `::`.
    fn note_tokens(&mut self, tokens: proc_macro2::TokenStream) {
        let mut path = Vec::new();
        let mut line = 0;
        let mut colons = 0;
        for token in tokens {
            match token {
                proc_macro2::TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.note(&std::mem::take(&mut path), line);
                        line = name.span().start().line;
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                proc_macro2::TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                other => {
                    self.note(&std::mem::take(&mut path), line);
                    colons = 0;
                    if let proc_macro2::TokenTree::Group(group) = other {
                        self.note_tokens(group.stream());
                    }
                }
            }
        }
        self.note(&path, line);
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.module.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.module.pop();
    }

    fn visit_item_use(&mut self, line: &'ast syn::ItemUse) {
        if matches!(line.vis, syn::Visibility::Inherited) {
            for leaf in leaves(&line.tree) {
                self.note(&leaf.path, leaf.line);
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let names: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.note(&names, path.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        if called.path.segments.last().is_some_and(|name| name.ident == "registry") {
            return;
        }
        visit::visit_macro(self, called);
        self.note_tokens(called.tokens.clone());
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

/// Name that a `use` line binds.
struct Leaf {
    path: ModulePath,
    name: String,
    line: usize,
    is_glob: bool,
}

#[derive(Default)]
struct Uses {
    leaves: Vec<Leaf>,
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_use(&mut self, line: &'ast syn::ItemUse) {
        self.leaves.extend(leaves(&line.tree));
    }

    // An inline module has its own scope.
    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {}
}

fn leaves(tree: &syn::UseTree) -> Vec<Leaf> {
    fn walk(tree: &syn::UseTree, prefix: &[String], found: &mut Vec<Leaf>) {
        let leaf = |name: &syn::Ident, bound: &syn::Ident, is_glob| {
            // `{self}` names the preceding module.
            let path = if name == "self" || is_glob { prefix.to_vec() } else { child(prefix, &name.to_string()) };
            let name = if bound == "self" { prefix.last().cloned().unwrap_or_default() } else { bound.to_string() };
            Leaf { path, name, line: bound.span().start().line, is_glob }
        };
        match tree {
            syn::UseTree::Path(path) => walk(&path.tree, &child(prefix, &path.ident.to_string()), found),
            syn::UseTree::Name(name) => found.push(leaf(&name.ident, &name.ident, false)),
            syn::UseTree::Rename(rename) => found.push(leaf(&rename.ident, &rename.rename, false)),
            syn::UseTree::Glob(glob) => {
                let star = syn::Ident::new("glob", glob.star_token.span());
                found.push(leaf(&star, &star, true));
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| walk(tree, prefix, found)),
        }
    }
    let mut found = Vec::new();
    walk(tree, &[], &mut found);
    found
}

/// Returns whether the attributes contain `cfg(test)`, alone or in `all`.
pub(crate) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    fn asks_for_test(condition: &syn::Meta) -> bool {
        let all = Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated;
        match condition {
            syn::Meta::Path(name) => name.is_ident("test"),
            syn::Meta::List(list) if list.path.is_ident("all") => {
                list.parse_args_with(all).is_ok_and(|conditions| conditions.iter().any(asks_for_test))
            }
            _ => false,
        }
    }
    let mut conditions = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    conditions.any(|attribute| attribute.parse_args().is_ok_and(|condition: syn::Meta| asks_for_test(&condition)))
}

/// Returns the attributes of an item that this code can check for `#[cfg(test)]`.
pub(crate) fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
