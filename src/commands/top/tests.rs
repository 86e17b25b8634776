//! Tests of the screen, cell by cell.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode;
use serde_json::json;

use super::screen::{Screen, drawn};

fn shown(screen: &Screen, (width, height): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen in memory");
    terminal.draw(|frame| drawn(screen, frame)).expect("drawn");
    terminal.backend().to_string()
}

fn screen() -> Screen {
    let mut screen = Screen::new("http://127.0.0.1:8080/".to_owned());
    screen.history(json!({
        "kind": "train", "name": "taco\u{1b}[2J",
        "reports": { "step": [10, 20, 30], "series": {
            "lr": { "mean": [1e-4, 1e-4, 1e-4] },
            "terms/mlm": { "mean": [3.0, "NaN", 2.0] },
            "loss": { "mean": [3.5, 3.0, 2.5] },
        } },
        "ranks": [
            { "rank": 0, "host": "node-0", "step_s": 0.25, "data_wait": 0.01, "rank_wait": 0.4, "host_bytes": 1024 },
            { "rank": 1, "host": "node-1\u{1b}[2J", "step_s": 0.25, "data_wait": 0.35, "rank_wait": 0.02 },
        ],
        "events": [{ "version": 2, "time": 0, "elapsed_s": 1.0, "step": 20, "kind": "note", "text": "</script>\u{1b}]0;x" }],
    }));
    screen.status(Some(json!({
        "phase": "step", "actions": ["checkpoint"], "step": 30, "steps": 100, "progress": 0.3, "eta_s": 3600.0, "tokens_per_s": 12345.0,
        "actors": [{ "name": "load-0", "doing": "busy", "busy_s": 5.0, "starved_s": 1.0, "blocked_s": 4.0, "wall_s": 10.0, "queued": 1, "capacity": 2 }],
    })));
    screen
}

#[test]
fn a_screen_shows_the_progress_and_escapes_control_characters() {
    let mut screen = screen();
    for size in [(100, 30), (40, 12), (10, 4), (1, 1), (220, 60)] {
        let text = shown(&screen, size);
        assert!(!text.contains('\u{1b}'), "{text}");
    }
    let text = shown(&screen, (100, 30));
    for part in [
        "step 30 of 100",
        "30.0 %",
        "12 k tokens/s",
        "ETA 60 min",
        "load-0",
        "queue 1/2",
        " loss ",
        "note: </script>",
        "terms/mlm",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(screen.pressed(KeyCode::Right), None);
    assert!(shown(&screen, (100, 30)).contains(" terms/mlm "));
    // Progress and keys are shown even if there is little space.
    for size in [(100, 30), (80, 24), (60, 20), (40, 12), (30, 8)] {
        let text = shown(&screen, size);
        assert!(text.contains("step 30 of 100") && text.contains("q quit"), "{size:?}: {text}");
    }
    assert!(shown(&screen, (100, 30)).contains("c checkpoint") && !shown(&screen, (100, 30)).contains("s stop"));
    screen.status(None);
    let text = shown(&screen, (100, 30));
    assert!(
        text.contains("no server; from the log") && text.contains("step 30") && !text.contains("c checkpoint"),
        "{text}"
    );
}

/// The status is polled more often than the history, and may be answered from before the newest report.
#[test]
fn the_heading_is_not_behind_the_chart() {
    let mut screen = screen();
    for (polled, expected) in [(20, "step 30 of 100"), (31, "step 31 of 100")] {
        screen.status(Some(json!({ "phase": "step", "step": polled, "steps": 100, "progress": 0.2 })));
        let text = shown(&screen, (100, 30));
        assert!(text.contains(expected), "{text}");
        assert!(text.contains(if polled == 20 { "30.0 %" } else { "31.0 %" }), "{text}");
    }
}

#[test]
fn a_stop_needs_confirmation() {
    let mut screen = screen();
    assert_eq!(screen.pressed(KeyCode::Char('s')), None);
    assert_eq!(screen.pressed(KeyCode::Char('n')), None);
    assert_eq!(screen.pressed(KeyCode::Char('y')), None);
    screen.pressed(KeyCode::Char('s'));
    assert_eq!(screen.pressed(KeyCode::Char('y')), Some("stop"));
    assert_eq!(screen.pressed(KeyCode::Char('c')), Some("checkpoint"));
}

#[test]
fn a_run_without_events_has_a_screen() {
    let mut screen = Screen::new(String::new());
    screen.history(json!({}));
    screen.pressed(KeyCode::Left);
    assert!(shown(&screen, (80, 24)).contains("no report yet"));
}

#[test]
fn the_slowest_rank_comes_first() {
    let text = shown(&screen(), (100, 40));
    let line =
        |host: &str| text.lines().position(|line| line.contains(host)).unwrap_or_else(|| panic!("{host}: {text}"));
    assert!(line("the slowest first") < line("node-1") && line("node-1") < line("node-0"), "{text}");
    let row = text.lines().nth(line("node-1")).expect("found above");
    assert!(["250 ms", "35 %", "2.0 %", "–"].iter().all(|part| row.contains(part)), "{row}");
}
