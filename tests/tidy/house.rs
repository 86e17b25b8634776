//! `make house`: the house in numbers, for this checkout or for the folder that is given.
//!
//! # Definition
//! Below a package's sources: import circles (`imports.rs` says what those are); items that are `pub` at module level,
//! and how many of them are *unused*: no file outside these sources that names the package has their name among its
//! words; calls of `expect`, panics and assertions by macro, `unsafe`, tests aside. For all `.rs` files, tests among
//! them: their lines.

#![expect(clippy::print_stdout, reason = "a report for people")]

mod circles;
mod imports;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// Files above this are worth a second look.
const LINES_GOOD: usize = 350;

fn main() {
    let root = std::env::args_os().nth(1).map_or_else(tree::root, PathBuf::from);
    let files: Vec<_> = tree::files(&root).into_iter().filter(|path| tree::is(path, "rs")).collect();
    let sources: Sources = files.iter().map(|path| (path.as_str(), tree::read(&root, path))).collect();
    let words = sources.iter().map(|(path, source)| (*path, words_of(path, source))).collect();
    println!("{:<14}{}{}", "", Lengths::HEAD, Census::HEAD);
    let packages = tree::packages(&files);
    let censuses: Vec<_> = packages.iter().map(|folder| Census::take(&root, folder, &sources, &words)).collect();
    for (folder, census) in packages.iter().zip(&censuses) {
        let own = sources.iter().filter(|(path, _)| is_below(path, folder)).map(|(_, source)| source);
        println!("{folder:<14}{}{}", Lengths::of(own), census.row());
    }
    println!("{:<14}{}{}", "all, tests too", Lengths::of(sources.values()), Census::sum(&censuses).row());
}

type Sources<'a> = BTreeMap<&'a str, String>;

/// The identifiers of each file.
type Words<'a> = BTreeMap<&'a str, BTreeSet<String>>;

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

fn words_of(path: &str, source: &str) -> BTreeSet<String> {
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
    collect(source.parse().unwrap_or_else(|error| panic!("{path}: {error}")), &mut words);
    words
}

struct Lengths;

impl Lengths {
    const HEAD: &str = " files   lines  median    90 % longest  >350";

    fn of<'a>(sources: impl Iterator<Item = &'a String>) -> String {
        let mut lines: Vec<_> = sources.map(|source| source.lines().count()).collect();
        lines.sort_unstable();
        let at = |percent: usize| lines.get(lines.len() * percent / 100).copied().unwrap_or_default();
        let longest = lines.last().copied().unwrap_or_default();
        let (sum, long) = (lines.iter().sum::<usize>(), lines.iter().filter(|lines| **lines > LINES_GOOD).count());
        format!("{:>6}{sum:>8}{:>8}{:>8}{longest:>8}{long:>6}", lines.len(), at(50), at(90))
    }
}

/// What is counted in a package's own code.
#[derive(Default)]
struct Census {
    circles: usize,
    public: BTreeSet<(String, String)>,
    unused: usize,
    expects: usize,
    panics: usize,
    asserts: usize,
    unsafes: usize,
}

impl Census {
    const HEAD: &str = " circles  public  unused  expect   panic  assert  unsafe";

    fn take(root: &Path, folder: &str, sources: &Sources<'_>, words: &Words<'_>) -> Self {
        let mut census =
            Self { circles: circles::circles(&imports::of_package(root, folder)).len(), ..Self::default() };
        for (path, source) in sources.iter().filter(|(path, _)| is_below(path, folder) && !tree::is_test(path)) {
            let file = syn::parse_file(source).unwrap_or_else(|error| panic!("{path}: {error}"));
            Counter { census: &mut census, path }.visit_file(&file);
        }
        // `pipeline/src` is known to others as `pipeline`; nobody can know a program's `src`.
        let name = folder.strip_suffix("/src").unwrap_or_default();
        let outside = words.iter().filter(|(path, words)| !is_below(path, folder) && words.contains(name));
        let outside: BTreeSet<&String> = outside.flat_map(|(_, words)| words).collect();
        census.unused = census.public.iter().filter(|(_, item)| !outside.contains(item)).count();
        census
    }

    fn sum(censuses: &[Self]) -> Self {
        censuses.iter().fold(Self::default(), |mut sum, one| {
            sum.circles += one.circles;
            sum.public.extend(one.public.iter().cloned());
            sum.unused += one.unused;
            sum.expects += one.expects;
            sum.panics += one.panics;
            sum.asserts += one.asserts;
            sum.unsafes += one.unsafes;
            sum
        })
    }

    fn row(&self) -> String {
        let public = self.public.len();
        let counts = [self.circles, public, self.unused, self.expects, self.panics, self.asserts, self.unsafes];
        counts.map(|count| format!("{count:>8}")).concat()
    }
}

struct Counter<'a> {
    census: &'a mut Census,
    path: &'a str,
}

impl<'ast> Visit<'ast> for Counter<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if imports::is_for_tests(imports::attributes(item)) {
            return;
        }
        if let Some(name) = public_name(item) {
            self.census.public.insert((self.path.to_owned(), name));
        }
        visit::visit_item(self, item);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.census.expects += usize::from(call.method == "expect" || call.method == "expect_err");
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        let name = called.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        self.census.panics += usize::from(name == "panic" || name.starts_with("unreachable"));
        self.census.asserts += usize::from(name.starts_with("assert") || name.starts_with("debug_assert"));
        visit::visit_macro(self, called);
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.census.unsafes += 1;
        visit::visit_expr_unsafe(self, block);
    }
}

/// The name of an item that any other package may use.
fn public_name(item: &syn::Item) -> Option<String> {
    let (visibility, name) = match item {
        syn::Item::Const(item) => (&item.vis, &item.ident),
        syn::Item::Enum(item) => (&item.vis, &item.ident),
        syn::Item::Fn(item) => (&item.vis, &item.sig.ident),
        syn::Item::Static(item) => (&item.vis, &item.ident),
        syn::Item::Struct(item) => (&item.vis, &item.ident),
        syn::Item::Trait(item) => (&item.vis, &item.ident),
        syn::Item::Type(item) => (&item.vis, &item.ident),
        syn::Item::Union(item) => (&item.vis, &item.ident),
        _ => return None,
    };
    matches!(visibility, syn::Visibility::Public(_)).then(|| name.to_string())
}
