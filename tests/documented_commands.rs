//! Every command on the pages is valid: each line of an `sh` block is run in an empty folder.
//!
//! In an empty folder, expensive commands find no input, so only their flags are checked. Commands that need only
//! this repository must succeed.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use testkit::tree::{files, has_extension, read};
use testkit::{Home, Outcome, program, root};

/// Subcommands that need only a clone of the repository.
const ALONE: [&str; 5] = ["plan", "config", "completions", "man", "help"];

/// Words that a shell line may start with.
const SHELL: &str = "cargo make cloze for do done cat tail export tar git sbatch scancel docker kubectl systemctl useradd \
                     install ln cp scp ssh curl pip python mlflow torchrun zstd";

/// Returns the pages with their texts.
fn pages() -> Vec<(String, String)> {
    let named = ["README.md", "CONTRIBUTING.md", "configs/README.md", "deploy/README.md"];
    let is_page =
        |path: &String| has_extension(path, "md") && (named.contains(&path.as_str()) || path.starts_with("docs/"));
    files(root()).into_iter().filter(is_page).map(|page| (page.clone(), read(root(), &page))).collect()
}

/// Returns the fenced blocks of a page: language and lines.
fn blocks(page: &str) -> Vec<(&str, Vec<&str>)> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(fence) = lines.by_ref().find_map(|line| line.strip_prefix("```")) {
        blocks.push((fence, lines.by_ref().take_while(|line| !line.starts_with("```")).collect()));
    }
    blocks
}

/// Returns the lines of the `sh` blocks without comments, with continued lines joined.
pub(crate) fn typed(page: &str) -> Vec<String> {
    let mut typed = Vec::new();
    for (_, lines) in blocks(page).into_iter().filter(|(language, _)| *language == "sh") {
        let joined = lines.join("\n").replace("\\\n", " ");
        let lines = joined.lines().map(|line| line.split(" #").next().unwrap_or_default().trim().to_owned());
        typed.extend(lines.filter(|line| !line.is_empty() && !line.starts_with('#')));
    }
    typed
}

/// Returns the texts in backticks outside of blocks.
pub(crate) fn spans(page: &str) -> Vec<&str> {
    let prose = page.split("```").step_by(2);
    prose.flat_map(|prose| prose.lines().flat_map(|line| line.split('`').skip(1).step_by(2))).collect()
}

/// Returns the words of each `cloze …` command in a shell line, without quotes.
pub(crate) fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut is_word = false;
    for letter in line.chars().chain(['\n']) {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => word.push(letter),
            (None, '\'' | '"') => (quote, is_word) = (Some(letter), true),
            (None, ' ' | ';' | '&' | '|' | '>' | '\n') => {
                if is_word {
                    words.push(std::mem::take(&mut word));
                }
                is_word = false;
                if letter != ' ' {
                    commands.push(std::mem::take(&mut words));
                }
            }
            (None, _) => {
                word.push(letter);
                is_word = true;
            }
        }
    }
    // The result of `$(…)` is unknown here.
    let plain = |words: &[String]| words.iter().take_while(|word| !word.starts_with("$(")).cloned().collect();
    let is_before = |word: &&String| word.contains('=') || ["do", "then"].contains(&word.as_str());
    let begin = |words: &Vec<String>| words.iter().take_while(is_before).count();
    let ours = commands.into_iter().filter(|words| words.get(begin(words)).is_some_and(|word| word == "cloze"));
    ours.map(|words| plain(&words[begin(&words) + 1..])).collect()
}

/// Runs in an empty folder with the presets of this repository.
fn run(home: &Home, args: &[String]) -> Outcome {
    let mut command = Command::new(program());
    Outcome::new(command.args(args).current_dir(home.path()).stdin(Stdio::null()).output().expect("it starts"))
}

#[test]
fn every_command_on_a_page_is_one() {
    let home = Home::with_corpus(4);
    std::os::unix::fs::symlink(root().join("configs"), home.join("configs")).expect("linked");
    let mut offences = Vec::new();
    let mut tried = 0;
    let mut named = BTreeSet::new();
    for (page, text) in pages() {
        for line in typed(&text) {
            for args in commands(&line) {
                let output = run(&home, &args);
                tried += 1;
                let is_alone = args.first().is_some_and(|verb| ALONE.contains(&verb.as_str()));
                // Without `-c`, the file is the `run.toml` that `cloze init` writes.
                let has_file =
                    args.windows(2).any(|it| ["-c", "--config"].contains(&it[0].as_str()) && it[1] != "run.toml");
                let is_here =
                    is_alone && (has_file || args[0] != "plan") && !args.iter().any(|word| word == "run.toml");
                if output.stderr.contains("For more information, try '--help'") {
                    offences.push(format!("{page}: `{line}`: {output}"));
                } else if is_here && output.code != Some(0) {
                    offences.push(format!("{page}: `{line}` fails in a fresh clone: {output}"));
                }
            }
        }
        // Inline text may name a command without its required arguments.
        for span in spans(&text) {
            for args in commands(span).into_iter().filter(|args| named.insert(args.clone())) {
                let stderr = run(&home, &args).stderr;
                if stderr.contains("unexpected argument") || stderr.contains("unrecognized subcommand") {
                    offences.push(format!("{page}: `{span}`: {stderr}"));
                }
            }
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
    assert!(tried > 15, "only {tried} commands were found");
}

/// Every `cargo test … NAME` selects an existing test.
#[test]
fn every_test_on_a_page_is_there() {
    let mut names = String::new();
    let folders = ["src/", "tests/", "trainer/", "pipeline/src/", "profiler/src/", "crates/", "schemas/src/"];
    let is_source = |path: &String| has_extension(path, "rs") && folders.iter().any(|folder| path.starts_with(folder));
    for path in files(root()).into_iter().filter(is_source) {
        names += &path.replace(".rs", "::").replace('/', "::");
        let text = read(root(), &path);
        names.extend(text.lines().filter(|line| line.trim_start().starts_with("fn ")).map(|line| format!("{line}\n")));
    }
    let mut offences = Vec::new();
    for (page, text) in pages() {
        for command in spans(&text).into_iter().filter(|span| span.starts_with("cargo test ")) {
            let filter = command.split_whitespace().last().unwrap_or_default();
            if !filter.starts_with('-') && !names.contains(filter) {
                offences.push(format!("{page}: `{command}`: no test is called `{filter}`"));
            }
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

#[test]
fn commands_stand_in_sh_blocks_and_output_in_others() {
    let mut offences = Vec::new();
    for (page, text) in pages() {
        for (language, lines) in blocks(&text) {
            let known = ["sh", "text", "toml", "rust", "json", "python", "sql"];
            if !known.contains(&language) {
                offences.push(format!("{page}: a block of `{language}`; say which of {known:?} it is"));
            }
            let is_command =
                |line: &&str| line.starts_with("cloze ") || line.starts_with("make ") || line.starts_with("$ ");
            let hidden = lines.iter().filter(|line| language == "text" && is_command(line));
            offences.extend(hidden.map(|line| format!("{page}: `{line}` is a command in a block of output")));
        }
        for line in typed(&text) {
            // An assignment before a command belongs to it.
            let first =
                line.split_whitespace().find(|word| !word.contains('=')).unwrap_or_default().trim_end_matches(';');
            let is_known = SHELL.split_whitespace().any(|known| known == first)
                || line.split_whitespace().all(|word| word.contains('='));
            if !is_known && !first.starts_with(['.', '/', '-', '\'', '"', '$']) && !root().join(first).exists() {
                offences.push(format!("{page}: `{line}`: what is `{first}`?"));
            }
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

#[test]
fn lines_of_shell_are_taken_apart_as_a_shell_does() {
    let apart = |line: &str| commands(line);
    assert_eq!(
        apart("for a in b; do cloze train -c $a.toml --set x=1; done"),
        [["train", "-c", "$a.toml", "--set", "x=1"]]
    );
    assert_eq!(
        apart("cloze fill a \"the [MASK] sat; on\" && cloze man | head"),
        [vec!["fill", "a", "the [MASK] sat; on"], vec!["man"]]
    );
    assert!(apart("cargo test cloze-pipeline").is_empty());
}
