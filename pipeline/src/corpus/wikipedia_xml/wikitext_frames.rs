//! Nested constructs of wikitext that are open: templates, tables, links.

/// Maximum depth of open constructs. Deeper ones are text.
const MAX_DEPTH: usize = 64;

/// Kind of a construct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `{{…}}`, or `{{{…}}}` of three braces.
    Template { braces: usize },
    /// `{|…|}`.
    Table,
    /// `[[…]]`.
    Link,
    /// `[https://… label]`.
    ExternalLink,
}

/// Open construct.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    /// Output before its opening mark, and after it.
    pub(super) before: usize,
    pub(super) start: usize,
    /// Output before and after the first `|` of a link.
    pub(super) pipe: Option<usize>,
}

/// Stack of open constructs.
#[derive(Debug, Default)]
pub(super) struct Frames(Vec<Frame>);

impl Frames {
    /// Opens a construct. Returns false if there are too many.
    pub(super) fn push(&mut self, kind: Kind, before: usize, start: usize) -> bool {
        if self.0.len() >= MAX_DEPTH {
            return false;
        }
        self.0.push(Frame { kind, before, start, pipe: None });
        true
    }

    pub(super) fn top(&mut self) -> Option<&mut Frame> {
        self.0.last_mut()
    }

    /// Whether the text here is dropped when its template or table ends.
    pub(super) fn is_dropped(&self) -> bool {
        self.0.iter().any(|frame| matches!(frame.kind, Kind::Template { .. } | Kind::Table))
    }

    /// Closes the innermost template, with all that is open in it.
    pub(super) fn close_template(&mut self) -> Option<Frame> {
        self.close(|kind| matches!(kind, Kind::Template { .. }), |_| true)
    }

    /// Closes the innermost table, unless a template is open in it.
    pub(super) fn close_table(&mut self) -> Option<Frame> {
        self.close(|kind| kind == Kind::Table, |kind| !matches!(kind, Kind::Template { .. }))
    }

    /// Closes the innermost link, unless a template or a table is open in it.
    pub(super) fn close_link(&mut self) -> Option<Frame> {
        self.close(|kind| kind == Kind::Link, |kind| kind == Kind::ExternalLink)
    }

    /// Closes a link to a page outside of the wiki.
    pub(super) fn close_external_link(&mut self) -> Option<Frame> {
        self.close(|kind| kind == Kind::ExternalLink, |_| false)
    }

    fn close(&mut self, is_closed: impl Fn(Kind) -> bool, may_be_inside: impl Fn(Kind) -> bool) -> Option<Frame> {
        for at in (0..self.0.len()).rev() {
            let frame = self.0[at];
            if is_closed(frame.kind) {
                self.0.truncate(at);
                return Some(frame);
            }
            if !may_be_inside(frame.kind) {
                return None;
            }
        }
        None
    }
}
