//! `cloze top`: a run on a terminal, as it continues.
//!
//! It asks the address of `[serve]`, and where nobody answers reads the log of the run's folder: every run can be looked
//! at, also one that has ended.

mod client;
mod screen;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use self::client::Source;
use self::screen::{Screen, drawn};
use crate::exit::Usage;

/// Between two looks at what all do.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// Between two looks at what was said: some hundred kilobytes of a long run.
const HISTORY_EVERY: Duration = Duration::from_secs(5);

/// How long a key may take to be felt.
const PULSE: Duration = Duration::from_millis(100);

/// Shows the run until somebody leaves it.
pub(crate) fn run(target: &str) -> anyhow::Result<()> {
    let source = Source::find(target)?;
    let mut screen = Screen::new(source.name());
    screen.history(source.history()?);
    screen.status(source.status());
    if !io::stdout().is_terminal() {
        let message = "stdout is no terminal; `cloze runs` lists runs, `/status` and `/metrics` are for programs";
        return Err(Usage(message.to_owned()).into());
    }
    let mut terminal = ratatui::try_init()?;
    let done = shown(&mut terminal, &source, &mut screen);
    ratatui::restore();
    done
}

fn shown(terminal: &mut ratatui::DefaultTerminal, source: &Source, screen: &mut Screen) -> anyhow::Result<()> {
    let (mut looked, mut read) = (Instant::now(), Instant::now());
    loop {
        terminal.draw(|frame| drawn(screen, frame))?;
        if event::poll(PULSE)?
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            let is_cut = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
            match key.code {
                _ if is_cut => return Ok(()),
                KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                code => {
                    if let Some(action) = screen.pressed(code) {
                        screen.say(source.ask(action));
                    }
                }
            }
        }
        if looked.elapsed() >= STATUS_EVERY {
            screen.status(source.status());
            looked = Instant::now();
        }
        if read.elapsed() >= HISTORY_EVERY {
            match source.history() {
                Ok(history) => screen.history(history),
                Err(error) => screen.say(format!("{error:#}")),
            }
            read = Instant::now();
        }
    }
}
