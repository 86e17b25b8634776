//! `cloze top`: shows a run on the terminal.
//!
//! It reads the server of `[serve]`, or the log in the run folder if no server answers. Ended runs can be shown too.

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

/// Interval between two status requests.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// Interval between two history requests: some hundred kilobytes for a long run.
const HISTORY_EVERY: Duration = Duration::from_secs(5);

/// Maximum delay of a key press.
const PULSE: Duration = Duration::from_millis(100);

/// Shows the run until the user quits.
pub(crate) fn run(target: &str) -> anyhow::Result<()> {
    let source = Source::find(target)?;
    let mut screen = Screen::new(source.name());
    screen.history(source.history()?);
    screen.status(source.status());
    if !io::stdout().is_terminal() {
        let message = "stdout is not a terminal; use `cloze runs`, or `/status` and `/metrics` in programs";
        return Err(Usage(message.to_owned()).into());
    }
    let mut terminal = ratatui::try_init()?;
    let done = shown(&mut terminal, &source, &mut screen);
    ratatui::restore();
    done
}

fn shown(terminal: &mut ratatui::DefaultTerminal, source: &Source, screen: &mut Screen) -> anyhow::Result<()> {
    let mut looked = Instant::now();
    let mut read = Instant::now();
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
                        screen.set_message(source.request(action));
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
                Err(error) => screen.set_message(format!("{error:#}")),
            }
            read = Instant::now();
        }
    }
}
