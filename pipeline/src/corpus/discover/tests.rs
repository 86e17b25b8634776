//! Tests of the walk through folders.

use std::os::unix::fs::symlink;
use std::process::Command;

use super::*;
use crate::testing::write_all;

fn walked(home: &Path, inputs: &[&str]) -> Result<(Vec<String>, Option<String>)> {
    let inputs: Vec<_> = inputs.iter().map(|input| home.join(input).display().to_string()).collect();
    let walked = walk(&inputs, FileFilter::new(&["txt"]))?;
    let below = |path: &PathBuf| path.strip_prefix(home).expect("below").display().to_string();
    Ok((walked.paths.keys().map(below).collect(), walked.passed.description()))
}

#[test]
fn a_pipe_in_a_folder_is_skipped_with_a_way_out() {
    let home = tempfile::tempdir().expect("a temporary folder");
    write_all(home.path(), &[("a/x.txt", "1")]);
    let pipe = home.path().join("a/pipe.txt");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("started").success());
    let folder = home.path().join("a").display().to_string();
    let walked = walk(std::slice::from_ref(&folder), FileFilter::new(&["txt"])).expect("a file");
    assert_eq!((walked.paths.len(), walked.passed.hint().contains("copy its content to a file")), (1, true));
    assert!(walked.passed.description().is_some_and(|told| told.contains("1 a pipe (")), "named");
    fs::remove_file(home.path().join("a/x.txt")).expect("there");
    let error = walk(&[folder], FileFilter::new(&["txt"])).expect_err("only a pipe").to_string();
    assert!(error.contains("1 a pipe") && error.contains("copy its content to a file"), "{error}");
}

#[test]
fn skipped_files_are_counted_and_named() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let files = ["a/x.txt", "a/Y.TXT", "a/z.Txt.GZ", "a/p.br", "a/q.br", "a/README", "a/.hidden", "b/c/d.txt"];
    write_all(home.path(), &files.map(|name| (name, "")));
    symlink("nowhere", home.path().join("a/gone.txt")).expect("linked");
    assert!(Command::new("mkfifo").arg(home.path().join("a/pipe.txt")).status().expect("it runs").success());
    let error = walked(home.path(), &["b/*"]).expect_err("no file matches").to_string();
    assert!(error.contains("b/*: no input here") && error.contains("1 folders that a glob matches"), "{error}");
    let (found, told) = walked(home.path(), &["a"]).expect("readable");
    assert_eq!(found, ["a/Y.TXT", "a/x.txt", "a/z.Txt.GZ"]);
    let told = told.expect("something");
    for word in ["5 skipped", "2 `*.br`", "a/p.br", "1 without an extension", "1 broken symbolic links", "1 a pipe"] {
        assert!(told.contains(word), "`{word}` is missing in {told}");
    }
    assert_eq!(walked(home.path(), &["b"]).expect("readable").1, None);
    let error = walk(&[String::new()], FileFilter::new(&["txt"])).expect_err("no name").to_string();
    assert!(error.contains("an input has an empty name"), "{error}");
}

#[test]
fn a_link_is_followed_once_and_two_names_of_a_file_are_two_files() {
    let home = tempfile::tempdir().expect("a temporary folder");
    write_all(home.path(), &[("a/x.txt", "1"), ("b/y.txt", "2"), ("elsewhere/z.txt", "3")]);
    let link = |to: &str, at: &str| symlink(home.path().join(to), home.path().join(at)).expect("linked");
    link("a/x.txt", "a/again.txt");
    link("a", "b/others");
    link("elsewhere/z.txt", "b/z.txt");
    fs::hard_link(home.path().join("a/x.txt"), home.path().join("a/twin.txt")).expect("linked");
    let (found, told) = walked(home.path(), &["b", "a"]).expect("readable");
    assert_eq!(found, ["a/twin.txt", "a/x.txt", "b/y.txt", "b/z.txt"]);
    assert!(told.expect("four links").contains("4 symbolic links to files"));
}

#[test]
fn folders_written_by_the_program_are_not_read_as_corpus() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let files = [
        "a.txt",
        "data/versions/0.txt",
        "data/parts/0.txt",
        "data/b.txt",
        "run/log/0.txt",
        "run/checkpoints/latest",
        "log/c.txt",
        "begun/provisional_manifest.json",
        "begun/train/d.txt",
        "started/config.toml",
        "started/plan.json",
        "started/log/e.txt",
    ];
    write_all(home.path(), &files.map(|name| (name, "")));
    let (found, told) = walked(home.path(), &["."]).expect("readable");
    assert_eq!(found, ["a.txt", "log/c.txt"]);
    assert!(told.expect("four").contains("4 folders that `cloze` wrote"));
    let url = format!("file://{}", home.path().display());
    for input in ["**/*.txt", "*/**/*.txt"] {
        let (found, told) = walked(home.path(), &[input]).expect("readable");
        assert_eq!(found.last().map(String::as_str), Some("log/c.txt"), "{found:?}");
        assert!(found.len() <= 2 && told.expect("four").contains("4 folders that `cloze` wrote"), "{found:?}");
        let found = walk(&[format!("{url}/{input}")], FileFilter::new(&["txt"])).expect("readable");
        assert!(found.paths.len() <= 2, "{found:?}");
        assert!(found.passed.description().expect("four").contains("4 folders that `cloze` wrote"));
    }
}

#[test]
fn endless_inputs_are_refused_by_name() {
    let home = tempfile::tempdir().expect("a temporary folder");
    assert!(Command::new("mkfifo").arg(home.path().join("pipe")).status().expect("it runs").success());
    symlink("/dev/zero", home.path().join("zero")).expect("linked");
    symlink("nowhere", home.path().join("gone")).expect("linked");
    symlink("self", home.path().join("self")).expect("linked");
    for (input, word) in [
        ("pipe", "a pipe"),
        ("zero", "a device"),
        ("gone", "a broken symbolic link"),
        ("self", "a broken symbolic link"),
    ] {
        let error = walked(home.path(), &[input]).expect_err("refused").to_string();
        assert!(error.contains(word) && error.contains(input), "{error}");
    }
}
