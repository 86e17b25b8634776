//! `make code-stats`: statistics of the source, for this checkout or for a given folder.
//!
//! With `--unused` before the folder (`LIST=yes make code-stats`), the unused public items are listed too.
//!
//! # Definition
//! For each package, without tests: import cycles (defined in `imports.rs`); public items, and the number of unused
//! ones (`public.rs`); calls of `expect`, panics and assertions by macro, `unsafe`. For all `.rs` files, including
//! tests: number of lines.

#![expect(clippy::print_stdout, reason = "the report is the output")]

mod import_cycles;
mod imports;
mod public;

use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use testkit::tree;

use self::public::{Public, Sources, Words, is_below, parsed};

/// Number of lines above which a file should be reviewed.
const LINES_GOOD: usize = 350;

fn main() {
    let mut arguments = std::env::args_os().skip(1).peekable();
    let lists = arguments.next_if(|first| first == "--unused").is_some();
    let root = arguments.next().map_or_else(|| tree::root().to_owned(), PathBuf::from);
    let files: Vec<_> = tree::files(&root).into_iter().filter(|path| tree::has_extension(path, "rs")).collect();
    let sources: Sources = files.iter().map(|path| (path.clone(), tree::read(&root, path))).collect();
    let words = public::words(&sources);
    println!("{:<14}{}{}", "", Lengths::HEAD, Census::HEAD);
    let packages = tree::packages(&files);
    let censuses: Vec<_> = packages.iter().map(|folder| Census::take(&root, folder, &sources, &words)).collect();
    for (folder, census) in packages.iter().zip(&censuses) {
        let own = sources.iter().filter(|(path, _)| is_below(path, folder)).map(|(_, source)| source);
        println!("{folder:<14}{}{}", Lengths::of(own), census.row());
    }
    let sum = Census::sum(censuses);
    println!("{:<14}{}{}", "all, with tests", Lengths::of(sources.values()), sum.row());
    for (path, name) in sum.public.unused.iter().filter(|_| lists) {
        println!("unused: {path}: {name}");
    }
}

struct Lengths;

impl Lengths {
    const HEAD: &str = " files   lines  median    90 % longest  >350";

    fn of<'a>(sources: impl Iterator<Item = &'a String>) -> String {
        let mut lines: Vec<_> = sources.map(|source| source.lines().count()).collect();
        lines.sort_unstable();
        let at = |percent: usize| lines.get(lines.len() * percent / 100).copied().unwrap_or_default();
        let longest = lines.last().copied().unwrap_or_default();
        let sum = lines.iter().sum::<usize>();
        let long = lines.iter().filter(|lines| **lines > LINES_GOOD).count();
        format!("{:>6}{sum:>8}{:>8}{:>8}{longest:>8}{long:>6}", lines.len(), at(50), at(90))
    }
}

/// Counts of a package's code without tests.
#[derive(Default)]
struct Census {
    cycles: usize,
    public: Public,
    expects: usize,
    panics: usize,
    asserts: usize,
    unsafes: usize,
}

impl Census {
    const HEAD: &str = "  cycles  public unnamed  unused  expect   panic  assert  unsafe";

    fn take(root: &Path, folder: &str, sources: &Sources, words: &Words) -> Self {
        let cycles = import_cycles::import_cycles(&imports::of_package(root, folder)).len();
        let mut census = Self {
            cycles,
            public: Public::of_package(folder, &tree::library(root, folder), sources, words),
            ..Self::default()
        };
        for (path, source) in sources.iter().filter(|(path, _)| is_below(path, folder) && !tree::is_test(path)) {
            census.visit_file(&parsed(path, source));
        }
        census
    }

    fn sum(censuses: Vec<Self>) -> Self {
        censuses.into_iter().fold(Self::default(), |mut sum, one| {
            sum.cycles += one.cycles;
            sum.public.all.extend(one.public.all);
            sum.public.unnamed.extend(one.public.unnamed);
            sum.public.unused.extend(one.public.unused);
            sum.expects += one.expects;
            sum.panics += one.panics;
            sum.asserts += one.asserts;
            sum.unsafes += one.unsafes;
            sum
        })
    }

    fn row(&self) -> String {
        let Public { all, unnamed, unused } = &self.public;
        let public = all.len();
        let unnamed = unnamed.len();
        let unused = unused.len();
        let counts = [self.cycles, public, unnamed, unused, self.expects, self.panics, self.asserts, self.unsafes];
        counts.map(|count| format!("{count:>8}")).concat()
    }
}

impl<'ast> Visit<'ast> for Census {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !imports::is_for_tests(imports::attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.expects += usize::from(call.method == "expect" || call.method == "expect_err");
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        let name = called.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        self.panics += usize::from(name == "panic" || name.starts_with("unreachable"));
        self.asserts += usize::from(name.starts_with("assert") || name.starts_with("debug_assert"));
        visit::visit_macro(self, called);
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.unsafes += 1;
        visit::visit_expr_unsafe(self, block);
    }
}
