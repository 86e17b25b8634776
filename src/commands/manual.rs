//! `cloze completions` and `cloze man`: shell completions and manual pages.

use clap::CommandFactory as _;
use clap_complete::Shell;
use telemetry::terminal::line;

use crate::cli::Cli;
use crate::exit::Usage;

/// Prints a completion script.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "cloze", &mut script);
    print(script)
}

/// Prints a manual page.
pub(crate) fn page(verb: &[String]) -> anyhow::Result<()> {
    let mut command = Cli::command();
    command.build();
    let mut name = "cloze".to_owned();
    for word in verb {
        let Some(below) = command.find_subcommand(word) else {
            return Err(Usage(format!("`{name}` has no verb `{word}`; `cloze help` lists them")).into());
        };
        command = below.clone();
        name = format!("{name} {word}");
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    print(page)
}

fn print(text: Vec<u8>) -> anyhow::Result<()> {
    line(String::from_utf8(text)?.trim_end());
    Ok(())
}
