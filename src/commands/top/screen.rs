//! Layout of the screen.

use profiler::statistics::{milliseconds, percent};
use ratatui::Frame;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Cell, Chart, Dataset, Gauge, GraphType, Paragraph, Row, Table};
use schemas::printable;
use serde_json::Value;
use telemetry::quantities::time;
use telemetry::quantities::{bytes, short};

/// Heights in lines: events, heading, and the smallest readable curve.
const EVENTS: u16 = 6;
const HEAD: u16 = 2;
const CURVE: u16 = 8;

/// Largest number of actors, and of ranks.
const ACTORS: usize = 8;

/// State of a run and of the display.
#[derive(Debug, Default)]
pub(super) struct Screen {
    place: String,
    history: Value,
    status: Option<Value>,
    /// Index of the plotted metric.
    figure: usize,
    is_log: bool,
    /// Whether a stop was requested and is not confirmed yet.
    is_stop_pending: bool,
    message: String,
}

impl Screen {
    pub(super) fn new(place: String) -> Self {
        Self { place, ..Self::default() }
    }

    pub(super) fn history(&mut self, history: Value) {
        self.history = history;
    }

    pub(super) fn status(&mut self, status: Option<Value>) {
        self.status = status;
    }

    pub(super) fn set_message(&mut self, message: String) {
        self.message = message;
    }

    /// Action to send for a key, if any.
    pub(super) fn pressed(&mut self, key: KeyCode) -> Option<&'static str> {
        if std::mem::take(&mut self.is_stop_pending) {
            self.message.clear();
            return (key == KeyCode::Char('y')).then_some("stop");
        }
        let figures = self.figures().len().max(1);
        match key {
            KeyCode::Right | KeyCode::Down | KeyCode::Tab => self.figure = (self.figure + 1) % figures,
            KeyCode::Left | KeyCode::Up | KeyCode::BackTab => self.figure = (self.figure + figures - 1) % figures,
            KeyCode::Char('l') => self.is_log = !self.is_log,
            KeyCode::Char('c') => return Some("checkpoint"),
            KeyCode::Char('s') => {
                self.is_stop_pending = true;
                "stop the run after its step? y: yes, any other key: no".clone_into(&mut self.message);
            }
            _ => {}
        }
        None
    }

    /// Metrics with values: the loss first, then terms and metrics, then the rest.
    fn figures(&self) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.group().1["series"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        let rank = |name: &str| match name.split('/').next() {
            Some("loss") => 0,
            Some("terms") => 1,
            Some("metrics") => 2,
            _ => 3,
        };
        names.sort_by_key(|name| rank(name));
        names
    }

    /// Horizontal axis and its records: reports of a training, or progress of a preparation.
    fn group(&self) -> (&'static str, &Value) {
        if self.history["kind"] == "prepare" {
            ("hours", &self.history["preparation"])
        } else {
            ("step", &self.history["reports"])
        }
    }

    /// Points of a metric.
    fn points(&self, figure: &str) -> Vec<(f64, f64)> {
        let (axis, group) = self.group();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let x = list(&group[axis]);
        let y = list(&group["series"][figure]["mean"]);
        let pairs = x.iter().zip(&y).filter_map(|(x, y)| Some((x.as_f64()?, y.as_f64()?)));
        let shown = |value: f64| if self.is_log { value.log10() } else { value };
        pairs.map(|(x, y)| (x, shown(y))).filter(|(_, y)| y.is_finite()).collect()
    }

    /// Ranks of the newest report, at most eight, the slowest first: it waits least for the others.
    fn ranks(&self) -> Vec<&Value> {
        let mut ranks: Vec<&Value> = self.history["ranks"].as_array().into_iter().flatten().collect();
        let wait = |rank: &Value| rank["rank_wait"].as_f64().unwrap_or(f64::INFINITY);
        ranks.sort_by(|one, other| wait(one).total_cmp(&wait(other)));
        ranks.truncate(ACTORS);
        ranks
    }

    /// Step of the newest report of a training.
    fn reported_step(&self) -> Option<u64> {
        self.history["reports"]["step"].as_array()?.last()?.as_u64()
    }

    /// Completed steps: those of the status or of the newest report, of which either may be the newer one.
    fn step(&self) -> Option<u64> {
        let polled = self.status.as_ref().and_then(|status| status["step"].as_u64());
        polled.max(self.reported_step())
    }

    fn newest(&self, figure: &str) -> Option<f64> {
        self.group().1["series"][figure]["mean"].as_array()?.last()?.as_f64()
    }
}

/// Draws the screen.
pub(super) fn drawn(screen: &Screen, frame: &mut Frame<'_>) {
    let actors = screen.status.as_ref().and_then(|status| status["actors"].as_array()).map_or(0, Vec::len).min(ACTORS);
    let actors = if actors > 0 { u16::try_from(actors).unwrap_or(0) + 2 } else { 0 };
    // Heading and keys have priority; then the curve, the actors and the newest events.
    let area = frame.area();
    let mut left = area.height.saturating_sub(HEAD + 1);
    let ranks = screen.ranks().len();
    let ranks = if ranks > 0 { u16::try_from(ranks).unwrap_or(0) + 3 } else { 0 };
    let mut room = |wanted: u16, others: u16| {
        let has = if left >= wanted + others { wanted } else { 0 };
        left -= has;
        has
    };
    let progress = room(1, CURVE);
    let below = room(actors, CURVE);
    let ranks = room(ranks, CURVE);
    let events = room(EVENTS + 1, CURVE);
    let rows =
        Layout::vertical([HEAD.min(area.height), progress, left, ranks, below, events, 1].map(Constraint::Length));
    let [head, progress, middle, ranks, below, events, foot] = rows.areas(area);
    frame.render_widget(Paragraph::new(heading(screen, head.width)), head);
    gauge(screen, frame, progress);
    let list_width = if area.width >= 64 { 34 } else { 0 };
    let [chart, figures] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(list_width)]).areas(middle);
    curve(screen, frame, chart);
    list(screen, frame, figures);
    if ranks.height > 0 {
        rank_table(screen, frame, ranks);
    }
    if below.height > 0 {
        working(screen, frame, below);
    }
    event_lines(screen, frame, events);
    let mut keys = "q quit  ←→ metric  l log".to_owned();
    let may = |action: &str| {
        let actions = screen.status.as_ref().and_then(|status| status["actions"].as_array());
        actions.is_some_and(|actions| actions.iter().any(|it| it == action))
    };
    for (action, key) in [("checkpoint", "  c checkpoint"), ("stop", "  s stop")] {
        keys.push_str(if may(action) { key } else { "" });
    }
    let foot_text = if screen.message.is_empty() { keys } else { printable(&screen.message).into_owned() };
    frame.render_widget(Paragraph::new(foot_text).style(Style::new().add_modifier(Modifier::DIM)), foot);
}

fn text(value: &Value) -> String {
    value.as_str().map(|text| printable(text).into_owned()).unwrap_or_default()
}

/// Name and progress of the run. As much as fits, the most important first.
fn heading(screen: &Screen, width: u16) -> Vec<Line<'static>> {
    let name = text(&screen.history["name"]);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let place = Span::styled(printable(&screen.place).into_owned(), Style::new().fg(Color::DarkGray));
    let Some(status) = &screen.status else {
        let last = screen.reported_step().map_or(String::new(), |step| {
            format!("; the last report is of step {}", telemetry::quantities::count(step))
        });
        let why = format!("no server; from the log{last}");
        return vec![Line::from(vec![Span::styled(name, bold), "  ".into(), place]), Line::from(why)];
    };
    // The step number replaces the phase of a run that trains.
    let mut words = vec![text(&status["phase"])];
    words.retain(|phase| phase != "step");
    if let Some(step) = screen.step() {
        let of = status["steps"]
            .as_u64()
            .map_or(String::new(), |steps| format!(" of {}", telemetry::quantities::count(steps)));
        words.push(format!("step {}{of}", telemetry::quantities::count(step)));
    }
    words.extend(status["eta_s"].as_f64().map(|eta| format!("ETA {}", time(eta))));
    words.extend(status["tokens_per_s"].as_f64().map(|rate| format!("{} tokens/s", short(rate))));
    words.extend(status["epoch"].as_f64().map(|epoch| format!("epoch {epoch:.2}")));
    words.extend(status["memory"]["host_bytes"].as_u64().map(|host| format!("memory {}", bytes(host))));
    while words.len() > 1 && words.join("  ").chars().count() > usize::from(width) {
        words.pop();
    }
    vec![Line::from(vec![Span::styled(name, bold), "  ".into(), place]), Line::from(words.join("  "))]
}

fn gauge(screen: &Screen, frame: &mut Frame<'_>, area: Rect) {
    let Some(status) = &screen.status else { return };
    let of_step = screen.step().zip(status["steps"].as_u64()).map(|(step, steps)| step as f64 / steps.max(1) as f64);
    if let Some(share) = status["progress"].as_f64().map(|share| share.max(of_step.unwrap_or(0.0))) {
        let gauge = Gauge::default().ratio(share.clamp(0.0, 1.0)).gauge_style(Style::new().fg(Color::Blue));
        frame.render_widget(gauge.label(format!("{:.1} %", 100.0 * share)), area);
    }
}

fn curve(screen: &Screen, frame: &mut Frame<'_>, area: Rect) {
    let figures = screen.figures();
    let Some(figure) = figures.get(screen.figure % figures.len().max(1)) else {
        frame.render_widget(Paragraph::new("no report yet").block(Block::bordered()), area);
        return;
    };
    let points = screen.points(figure);
    let around = |values: &mut dyn Iterator<Item = f64>| {
        let (low, high) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            [0.0, 1.0]
        } else if low < high {
            [low, high]
        } else {
            [low - 0.5, high + 0.5]
        }
    };
    let x = around(&mut points.iter().map(|point| point.0));
    let y = around(&mut points.iter().map(|point| point.1));
    let scale = if screen.is_log { " (log10)" } else { "" };
    let title = format!(" {}{scale} ", printable(figure));
    let (axis, _) = screen.group();
    let label = |value: f64| if value.abs() >= 1e4 { short(value) } else { format!("{value:.4}") };
    let chart = Chart::new(vec![
        Dataset::default()
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(Style::new().fg(Color::Cyan))
            .data(&points),
    ])
    .block(Block::bordered().title(title))
    .x_axis(Axis::default().title(axis).bounds(x).labels([short(x[0]), short(x[1])]))
    .y_axis(Axis::default().bounds(y).labels([label(y[0]), label(y[1])]));
    frame.render_widget(chart, area);
}

fn list(screen: &Screen, frame: &mut Frame<'_>, area: Rect) {
    let figures = screen.figures();
    let chosen = screen.figure % figures.len().max(1);
    let room = usize::from(area.height.saturating_sub(2)).max(1);
    let first = (chosen + 1).saturating_sub(room);
    let rows = figures.iter().enumerate().skip(first).take(room).map(|(number, figure)| {
        let value = screen.newest(figure).map_or("–".to_owned(), |value| {
            if value.abs() >= 1e4 {
                short(value)
            } else if value.abs() >= 1e-3 || value == 0.0 {
                format!("{value:.4}")
            } else {
                format!("{value:.1e}")
            }
        });
        let style = if number == chosen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        Row::new([Cell::from(printable(figure).into_owned()), Cell::from(value)]).style(style)
    });
    let table = Table::new(rows, [Constraint::Min(20), Constraint::Length(9)]);
    frame.render_widget(table.block(Block::bordered().title(" newest ")), area);
}

/// Colours of the states of a worker: those of the status page and of the profile reports.
const BUSY: Color = Color::Green;
const STARVED: Color = Color::Indexed(208);
const BLOCKED: Color = Color::DarkGray;

/// Bar with the time of each actor.
fn working(screen: &Screen, frame: &mut Frame<'_>, area: Rect) {
    let actors = screen.status.as_ref().and_then(|status| status["actors"].as_array()).cloned().unwrap_or_default();
    let width = usize::from(area.width.saturating_sub(44)).max(10);
    let rows = actors.iter().take(ACTORS).map(|actor| {
        let seconds = |name: &str| actor[name].as_f64().unwrap_or(0.0);
        let part = |name: &str| (seconds(name) / seconds("wall_s").max(1e-9)).clamp(0.0, 1.0);
        let cells = |share: f64| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a screen's width")]
            let cells = (share * width as f64).round() as usize;
            cells.min(width)
        };
        let bar = |share: f64, colour: Color| Span::styled("█".repeat(cells(share)), Style::new().fg(colour));
        let name = text(&actor["name"]);
        let queue = match actor["capacity"].as_u64() {
            Some(capacity) if capacity > 0 => format!(" queue {}/{capacity}", actor["queued"].as_u64().unwrap_or(0)),
            _ => String::new(),
        };
        Line::from(vec![
            Span::raw(format!("{name:16.16} {:8} ", text(&actor["doing"]))),
            bar(part("busy_s"), BUSY),
            bar(part("starved_s"), STARVED),
            bar(part("blocked_s"), BLOCKED),
            Span::raw(queue),
        ])
    });
    let title = " green busy, orange starved, grey blocked ";
    frame.render_widget(Paragraph::new(rows.collect::<Vec<_>>()).block(Block::bordered().title(title)), area);
}

/// Times and memory of the ranks.
fn rank_table(screen: &Screen, frame: &mut Frame<'_>, area: Rect) {
    let rows = screen.ranks().into_iter().enumerate().map(|(place, rank)| {
        let number = |name: &str| rank[name].as_f64();
        let share = |name: &str| number(name).map_or("–".to_owned(), percent);
        let cells = [
            rank["rank"].as_u64().map_or("–".to_owned(), |rank| rank.to_string()),
            text(&rank["host"]),
            number("step_s").map_or("–".to_owned(), |seconds| milliseconds(1e3 * seconds)),
            share("data_wait"),
            share("rank_wait"),
            rank["host_bytes"].as_u64().map_or("–".to_owned(), bytes),
        ];
        let style = if place == 0 { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
        Row::new(cells).style(style)
    });
    let widths = [6, 20, 12, 12, 14, 12].map(Constraint::Length);
    let head =
        Row::new(["rank", "host", "step", "data wait", "rank wait", "memory"]).style(Style::new().fg(Color::DarkGray));
    let table = Table::new(rows, widths).header(head).block(Block::bordered().title(" ranks, the slowest first "));
    frame.render_widget(table, area);
}

fn event_lines(screen: &Screen, frame: &mut Frame<'_>, area: Rect) {
    let events = screen.history["events"].as_array().cloned().unwrap_or_default();
    let lines = events.iter().rev().filter(|event| event["kind"] != "audit").filter_map(|event| {
        let event = serde_json::from_value::<telemetry::Event>(event.clone()).ok()?;
        let line = telemetry::event_text::line(&event)?;
        Some(Line::from(printable(line.lines().next().unwrap_or_default()).into_owned()))
    });
    let mut lines: Vec<Line<'_>> = lines.take(usize::from(EVENTS)).collect();
    lines.reverse();
    frame.render_widget(Paragraph::new(lines), area);
}
