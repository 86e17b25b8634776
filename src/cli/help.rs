//! Help of `cloze`: its verbs under headings, and the texts around them.

use std::fmt::Write as _;

use clap::Command;

/// Text that `cloze` prints without arguments.
pub(super) const FIRST_SCREEN: &str = "\
cloze pretrains BERT-style encoders. To start with your own text:

  cloze init corpus/                       write run.toml for the corpus
  cloze tokenizer train                    train a tokenizer on it
  cloze prepare                            tokenize it into shards
  cloze plan                               check the run and its cost
  cloze train                              train; the same command resumes

`cloze help` lists all verbs, `cloze VERB --help` describes one.";

/// Text after the help of `cloze`.
pub(super) const AFTER: &str = "\
From text to a model:
  cloze init corpus/                       write run.toml for a corpus
  cloze tokenizer train                    train a tokenizer on it
  cloze prepare                            tokenize it into shards
  cloze plan                               check the run and its cost
  cloze train                              train; the same command resumes
  cloze export runs/run --out model        write a Hugging Face folder

Environment:
  RUST_LOG           log levels: `warn`, `debug`, `pipeline=debug,warn`;
                     overrides -v and -q
  CLOZE_LOG_FORMAT   `json`: as `--log json`
  NO_COLOR, CLICOLOR_FORCE

Exit codes: 0 done, 1 failed (the same command continues), 2 configuration or
usage, 42 unusable corpus, 43 diverged, 44 out of device memory, 45 paused by
the spike guard, 46 stopped without saving, 129, 130, 138 and 143 stopped by
SIGHUP, SIGINT, SIGUSR1 and SIGTERM, and saved.";

/// Verbs by heading.
const GROUPS: &[(&str, &[&str])] = &[
    ("Prepare", &["init", "config", "tokenizer", "prepare", "verify", "plan"]),
    ("Train", &["train", "tune"]),
    ("Runs", &["runs", "top", "report", "checkpoints", "rollback", "branch", "extend", "diff"]),
    ("Inspect", &["inspect", "explain", "replay", "exposure"]),
    ("Evaluate and export", &["finetune", "evaluate", "sweep", "analyze", "fill", "export", "parity"]),
    ("Profile", &["profile"]),
    ("Shell", &["completions", "man", "help"]),
];

/// Returns the command with its verbs under headings.
pub(super) fn grouped(command: Command) -> Command {
    let mut list = String::new();
    for (heading, verbs) in GROUPS {
        let _ = writeln!(list, "\n{heading}:");
        for verb in *verbs {
            let about = command.find_subcommand(verb).and_then(Command::get_about).map(ToString::to_string);
            let _ = writeln!(list, "  {verb:<12}{}", about.unwrap_or_else(|| "Describe a verb".to_owned()));
        }
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{list}\nOptions:\n{{options}}{{after-help}}"
    ))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_verb_is_under_one_heading() {
        let command = Cli::command();
        let mut known: Vec<&str> = command.get_subcommands().map(Command::get_name).chain(["help"]).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        known.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, known);
    }

    #[test]
    fn help_fits_a_terminal_of_80_columns() {
        let help = grouped(Cli::command()).render_help().to_string();
        let long: Vec<&str> = help.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(long.is_empty(), "{long:#?}");
    }
}
