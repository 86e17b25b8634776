//! Import cycles: sets of files that import each other and cannot be read, tested or removed separately.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::Import;

/// Imports between the files of a cycle. Each file has at least one.
pub(crate) type Cycle = Vec<Import>;

/// Returns the largest sets of files that all reach each other.
pub(crate) fn import_cycles(imports: &[Import]) -> Vec<Cycle> {
    let files: BTreeSet<&str> = imports.iter().map(|import| import.from.as_str()).collect();
    let reach: BTreeMap<&str, BTreeSet<&str>> = files.iter().map(|file| (*file, reached(file, imports))).collect();
    let both_ways = |a: &str, b: &str| reach[a].contains(b) && reach.get(b).is_some_and(|from_b| from_b.contains(a));
    let mut found: Vec<Cycle> = Vec::new();
    for import in imports.iter().filter(|import| both_ways(&import.from, &import.to)) {
        match found.iter_mut().find(|cycle| both_ways(&cycle[0].from, &import.from)) {
            Some(cycle) => cycle.push(import.clone()),
            None => found.push(vec![import.clone()]),
        }
    }
    found
}

fn reached<'a>(start: &'a str, imports: &'a [Import]) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut ahead = vec![start];
    while let Some(file) = ahead.pop() {
        let next = imports.iter().filter(|import| import.from == file).map(|import| import.to.as_str());
        ahead.extend(next.filter(|to| reached.insert(*to)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::super::imports::imports;
    use super::*;

    /// Returns the cycles among files given as `path: source`, each as `from:line to` of its imports.
    fn planted(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let sources = files.iter().map(|(path, source)| (format!("src/{path}"), (*source).to_owned())).collect();
        let short = |path: &str| path.trim_start_matches("src/").trim_end_matches(".rs").to_owned();
        let arrow = |import: &Import| format!("{}:{} {}", short(&import.from), import.line, short(&import.to));
        import_cycles(&imports("src", &sources)).iter().map(|cycle| cycle.iter().map(arrow).collect()).collect()
    }

    #[test]
    fn injected_import_cycles_are_named_with_their_lines() {
        let two = planted(&[
            ("lib.rs", "mod a;\nmod b;"),
            ("a.rs", "use crate::b::B;\npub struct A(B);"),
            ("b.rs", "pub struct B;\nfn f() -> crate::a::A {}"),
        ]);
        assert_eq!(two, [["a:1 b", "b:2 a"]]);

        // Nested braces, a re-exported child, and the arguments of a macro.
        let three = planted(&[
            ("lib.rs", "mod a;\nmod b;\nmod c;"),
            ("a.rs", "use std::fmt;\nuse crate::{\n    b::{self, Deep as Other},\n};\npub const A: u32 = 1;"),
            ("b/mod.rs", "mod deep;\npub use self::deep::Deep;"),
            ("b/deep.rs", "use super::super::c;\npub struct Deep;\nfn f() {\n    c::run();\n}"),
            ("c.rs", "pub fn run() {\n    assert!(true, \"{}\", crate::a::A);\n}"),
        ]);
        assert_eq!(three, [["a:3 b/deep", "b/deep:4 c", "c:2 a"]]);

        // A parent whose own code uses a child that uses the parent.
        let family = planted(&[
            ("lib.rs", "mod a;"),
            ("a.rs", "pub use child::Child;\nmod child;\npub struct Parent(\n    Child,\n);"),
            ("a/child.rs", "use super::Parent;\npub struct Child(Option<Box<Parent>>);"),
        ]);
        assert_eq!(family, [["a:4 a/child", "a/child:1 a"]]);
    }

    #[test]
    fn files_without_cycles_are_not_reported() {
        // A parent that declares and re-exports items, and children that use items of the parent.
        let passed_on: &[(&str, &str)] = &[
            ("lib.rs", "pub mod a;\npub use a::Child;"),
            ("a/mod.rs", "pub mod child;\npub use child::Child;\nuse std::io;\npub struct Item;"),
            ("a/child.rs", "use super::{Item, io};\npub struct Child(Item, io::Error, crate::a::Child);"),
        ];
        // Table of a registry.
        let table: &[(&str, &str)] = &[
            ("lib.rs", "pub mod views;"),
            (
                "views/mod.rs",
                "schemas::registry! {\n    pub enum AnyView: View {\n        mask::Mask,\n    }\n}\npub trait View {}",
            ),
            ("views/mask.rs", "use super::{AnyView, View};\npub struct Mask;\nimpl View for Mask {}"),
        ];
        // Tests, and names that are only similar.
        let tests: &[(&str, &str)] = &[
            ("lib.rs", "mod a;\nmod b;\n#[cfg(all(test, unix))]\nmod testing;"),
            ("a.rs", "use crate::b::B;\npub struct A;\n#[cfg(test)]\nmod tests {\n    use super::*;\n}"),
            (
                "b.rs",
                "/// See [`crate::a::A`].\npub struct B;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\nfn f() { a::run() }",
            ),
            ("testing.rs", "use crate::a::A;"),
        ];
        for files in [passed_on, table, tests] {
            assert_eq!(planted(files), Vec::<Vec<String>>::new(), "{files:?}");
        }
    }
}
