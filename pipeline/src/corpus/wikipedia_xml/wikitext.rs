//! Wikitext to plain text, in one pass: time grows linearly with the text, and no call is nested.
//!
//! An open construct remembers the length of the output at its beginning. When it is closed, the output from there on is
//! dropped (templates, tables, files) or shortened (links). A construct that is never closed stays as text.

use quick_xml::escape::resolve_html5_entity;

use super::wikitext_frames::{Frames, Kind};

/// Tags whose content is no prose.
const DROPPED_TAGS: [&str; 18] = [
    "ref",
    "references",
    "gallery",
    "math",
    "chem",
    "ce",
    "timeline",
    "syntaxhighlight",
    "source",
    "score",
    "imagemap",
    "templatedata",
    "graph",
    "mapframe",
    "maplink",
    "hiero",
    "inputbox",
    "templatestyles",
];

/// Tags that begin a line.
const LINE_TAGS: [&str; 12] = ["br", "p", "div", "li", "ul", "ol", "tr", "td", "dd", "dt", "hr", "blockquote"];

/// Maximum bytes of a tag, of an entity, and of the name of a magic word.
const MAX_TAG_BYTES: usize = 1000;
const MAX_ENTITY_BYTES: usize = 32;

/// Appends the plain text. `hidden` has the lower-case prefixes of links that are dropped.
pub(super) fn to_plain(wikitext: &str, hidden: &[String], text: &mut String) {
    let mut parser = Parser::new(wikitext, hidden);
    parser.line_start();
    parser.run();
    clean(&parser.out, text);
}

struct Parser<'a> {
    input: &'a str,
    at: usize,
    out: String,
    frames: Frames,
    hidden: &'a [String],
    /// Tags that are not closed in the rest of the input.
    unclosed: Vec<&'static str>,
}

/// Whether a byte may begin or end a construct.
const fn is_special(byte: u8) -> bool {
    matches!(byte, b'<' | b'[' | b']' | b'{' | b'}' | b'\'' | b'&' | b'|' | b'\n' | b'_' | b'=')
}

impl<'a> Parser<'a> {
    fn new(input: &'a str, hidden: &'a [String]) -> Self {
        Self { input, at: 0, out: String::new(), frames: Frames::default(), hidden, unclosed: Vec::new() }
    }

    fn run(&mut self) {
        while self.at < self.input.len() {
            let plain = self.rest().iter().position(|&byte| is_special(byte)).unwrap_or(self.rest().len());
            self.copy(plain);
            if plain == 0 {
                self.special();
            }
        }
    }

    fn rest(&self) -> &'a [u8] {
        &self.input.as_bytes()[self.at..]
    }

    /// Copies the next bytes: whole characters.
    fn copy(&mut self, bytes: usize) {
        self.out.push_str(&self.input[self.at..self.at + bytes]);
        self.at += bytes;
    }

    /// Reads a construct, or copies its first byte.
    fn special(&mut self) {
        let is_read = match self.rest() {
            [b'\n', ..] => {
                self.end_line();
                true
            }
            [b'<', ..] => self.tag(),
            [b'{', b'{', ..] => self.open_template(),
            [b'}', b'}', ..] => self.close_template(),
            [b'[', b'[', ..] => self.open(Kind::Link, 2),
            [b'[', ..] => self.open_external_link(),
            [b']', b']', ..] => self.close_link(),
            [b']', ..] => self.frames.close_external_link().is_some_and(|_| self.pass(1)),
            [b'|', ..] => self.pipe(),
            [b'\'', b'\'', ..] => self.quotes(),
            [b'&', ..] => self.entity(),
            [b'_', b'_', ..] => self.magic_word(),
            _ => false,
        };
        if !is_read {
            self.copy(1);
        }
    }

    fn pass(&mut self, bytes: usize) -> bool {
        self.at += bytes;
        true
    }

    /// Opens a construct; its mark is text until it is closed.
    fn open(&mut self, kind: Kind, mark: usize) -> bool {
        let before = self.out.len();
        let is_open = self.frames.push(kind, before, before + mark);
        if is_open {
            self.copy(mark);
        }
        is_open
    }

    fn open_template(&mut self) -> bool {
        let braces = self.rest().iter().take(4).take_while(|&&byte| byte == b'{').count();
        // Four are two templates.
        let braces = if braces == 3 { 3 } else { 2 };
        self.open(Kind::Template { braces }, braces)
    }

    fn close_template(&mut self) -> bool {
        let Some(frame) = self.frames.close_template() else { return false };
        self.out.truncate(frame.before);
        let is_three = frame.kind == Kind::Template { braces: 3 } && self.rest().get(2) == Some(&b'}');
        self.pass(if is_three { 3 } else { 2 })
    }

    fn pipe(&mut self) -> bool {
        let length = self.out.len();
        if let Some(frame) = self.frames.top().filter(|frame| frame.kind == Kind::Link && frame.pipe.is_none()) {
            frame.pipe = Some(length);
        }
        false
    }

    /// Replaces a link by its label.
    fn close_link(&mut self) -> bool {
        let Some(frame) = self.frames.close_link() else { return false };
        self.pass(2);
        let target = &self.out[frame.start..frame.pipe.unwrap_or(self.out.len())];
        if self.is_hidden(target, frame.pipe.is_some()) {
            self.out.truncate(frame.before);
            return true;
        }
        let has_colon = target.starts_with(':');
        if let Some(pipe) = frame.pipe.filter(|&pipe| pipe + 1 < self.out.len()) {
            self.out.replace_range(frame.before..=pipe, "");
        } else {
            self.out.truncate(frame.pipe.unwrap_or(self.out.len()));
            self.out.replace_range(frame.before..frame.start + usize::from(has_colon), "");
        }
        true
    }

    /// Whether a link is to a file, a category or the same page in another language.
    fn is_hidden(&self, target: &str, has_label: bool) -> bool {
        let Some((prefix, _)) = target.split_once(':') else { return false };
        let prefix = prefix.trim();
        let is_language = matches!(prefix.len(), 2 | 3) && prefix.bytes().all(|byte| byte.is_ascii_lowercase());
        (is_language && !has_label) || (prefix.len() < 200 && self.hidden.contains(&prefix.to_lowercase()))
    }

    fn open_external_link(&mut self) -> bool {
        const SCHEMES: [&[u8]; 6] = [b"http://", b"https://", b"//", b"ftp://", b"mailto:", b"irc://"];
        let rest = &self.rest()[1..];
        if !SCHEMES.iter().any(|scheme| rest.starts_with(scheme)) || self.frames.is_dropped() {
            return false;
        }
        let url = rest
            .iter()
            .position(|byte| matches!(byte, b' ' | b'\n' | b']' | b'\t' | b'<' | b'['))
            .unwrap_or(rest.len());
        if !self.frames.push(Kind::ExternalLink, self.out.len(), self.out.len()) {
            return false;
        }
        let blank = usize::from(rest.get(url) == Some(&b' '));
        self.pass(1 + url + blank)
    }

    /// Reads the quotes of bold and italic text.
    fn quotes(&mut self) -> bool {
        let count = self.rest().iter().take_while(|&&byte| byte == b'\'').count();
        let kept = match count {
            2 | 3 | 5 => 0,
            4 => 1,
            more => more - 5,
        };
        self.copy(kept);
        self.pass(count - kept)
    }

    fn entity(&mut self) -> bool {
        let rest = &self.rest()[1..];
        let head = &rest[..rest.len().min(MAX_ENTITY_BYTES)];
        let Some(name) =
            head.iter().position(|&byte| byte == b';').and_then(|end| std::str::from_utf8(&head[..end]).ok())
        else {
            return false;
        };
        let number = name.strip_prefix('#').and_then(|digits| match digits.strip_prefix(['x', 'X']) {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => digits.parse().ok(),
        });
        let length = name.len() + 2;
        if let Some(character) = number.and_then(char::from_u32) {
            self.out.push(character);
        } else if let Some(text) = resolve_html5_entity(name) {
            self.out.push_str(text);
        } else {
            return false;
        }
        self.pass(length)
    }

    /// Reads a word like `__NOTOC__`.
    fn magic_word(&mut self) -> bool {
        let rest = &self.rest()[2..];
        let length = rest.iter().take(MAX_ENTITY_BYTES).take_while(|byte| byte.is_ascii_uppercase()).count();
        length > 0 && rest[length..].starts_with(b"__") && self.pass(length + 4)
    }

    fn end_line(&mut self) {
        // A link to another site ends with its line.
        while self.frames.close_external_link().is_some() {}
        self.copy(1);
        self.line_start();
    }

    /// Reads what only means something at the beginning of a line: headings, lists, tables.
    fn line_start(&mut self) {
        let blanks = self.rest().iter().take_while(|&&byte| matches!(byte, b' ' | b'\t' | b':')).count();
        if self.rest()[blanks..].starts_with(b"{|") {
            self.at += blanks;
            self.open(Kind::Table, 2);
            return;
        }
        if self.rest()[blanks..].starts_with(b"|}") && !self.rest()[blanks..].starts_with(b"|}}") {
            if let Some(frame) = self.frames.close_table() {
                self.out.truncate(frame.before);
                self.at += blanks + 2;
            }
            return;
        }
        match self.rest().first() {
            Some(b'=') => self.heading(),
            Some(b'*' | b'#' | b':' | b';') if !self.frames.is_dropped() => {
                let marks =
                    self.rest().iter().take_while(|&&byte| matches!(byte, b'*' | b'#' | b':' | b';' | b' ')).count();
                self.at += marks;
            }
            Some(b'-') if self.rest().starts_with(b"----") => {
                self.at += self.rest().iter().take_while(|&&byte| byte == b'-').count();
            }
            _ => {}
        }
    }

    /// Removes the marks of a heading: its line stays.
    fn heading(&mut self) {
        let line = memchr::memchr(b'\n', self.rest()).map_or(self.rest(), |end| &self.rest()[..end]).trim_ascii_end();
        let level = line.iter().take_while(|&&byte| byte == b'=').count();
        let end = line.iter().rev().take_while(|&&byte| byte == b'=').count();
        let level = level.min(end);
        if level == 0 || level > 6 || line.len() <= 2 * level || self.frames.is_dropped() {
            return;
        }
        // The marks at the end are removed with the others in the cleaning of lines.
        let inner = std::str::from_utf8(&line[level..line.len() - level]).unwrap_or_default();
        let length = line.len();
        let mut parser = Parser::new(inner.trim(), self.hidden);
        parser.run();
        self.out.push('\n');
        self.out.push_str(&parser.out);
        self.at += length;
    }

    /// Reads a comment or a tag.
    fn tag(&mut self) -> bool {
        if self.rest().starts_with(b"<!--") {
            // A comment that is not closed ends with the page.
            let end = memchr::memmem::find(self.rest(), b"-->");
            return self.pass(end.map_or(self.rest().len(), |end| end + 3));
        }
        let head = &self.rest()[..self.rest().len().min(MAX_TAG_BYTES)];
        let Some(end) = memchr::memchr(b'>', head) else { return false };
        let inner = &head[1..end];
        let (inner, is_closing) = inner.strip_prefix(b"/").map_or((inner, false), |inner| (inner, true));
        let name_length = inner.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        if name_length == 0 || !inner[0].is_ascii_alphabetic() || inner.contains(&b'<') {
            return false;
        }
        let name = String::from_utf8_lossy(&inner[..name_length]).to_ascii_lowercase();
        let is_empty = inner.ends_with(b"/");
        self.at += end + 1;
        if is_closing || is_empty {
            self.new_line(&name);
            return true;
        }
        if name == "nowiki" || name == "pre" {
            let name = if name == "pre" { "pre" } else { "nowiki" };
            if let Some((text, after)) = self.closing(name) {
                self.out.push_str(text);
                self.at = after;
            }
        } else if let Some(name) = DROPPED_TAGS.iter().find(|tag| **tag == name) {
            if let Some((_, after)) = self.closing(name) {
                self.at = after;
            }
        } else {
            self.new_line(&name);
        }
        true
    }

    fn new_line(&mut self, name: &str) {
        if LINE_TAGS.contains(&name) {
            self.out.push('\n');
        }
    }

    /// Returns the text up to the closing tag, and the position after it.
    fn closing(&mut self, name: &'static str) -> Option<(&'a str, usize)> {
        if self.unclosed.contains(&name) {
            return None;
        }
        let rest = self.rest();
        let found = memchr::memmem::find_iter(rest, b"</").find(|&at| {
            let tag = &rest[at + 2..];
            let is_name = tag.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()));
            is_name && tag.get(name.len()).is_some_and(|byte| matches!(byte, b'>' | b' ' | b'\t' | b'\n'))
        });
        let end = found.and_then(|at| memchr::memchr(b'>', &rest[at..]).map(|end| (at, at + end + 1)));
        if end.is_none() {
            // No later search of this tag can succeed: time stays linear.
            self.unclosed.push(name);
        }
        end.map(|(at, end)| (&self.input[self.at..self.at + at], self.at + end))
    }
}

/// Appends the lines without blanks at their ends, brackets that templates left empty, and repeated blank lines.
fn clean(from: &str, text: &mut String) {
    let mut is_blank = true;
    let first = text.len();
    for line in from.lines() {
        let line = line.trim();
        if line.is_empty() {
            is_blank = true;
            continue;
        }
        if is_blank && text.len() > first {
            text.push('\n');
        }
        is_blank = false;
        let mut rest = line;
        while let Some(at) = rest.find(" (") {
            let inner = rest[at + 2..].trim_start_matches([' ', ',', ';', '\u{a0}']);
            if let Some(after) = inner.strip_prefix(')') {
                text.push_str(&rest[..at]);
                rest = after;
            } else {
                text.push_str(&rest[..at + 2]);
                rest = &rest[at + 2..];
            }
        }
        text.push_str(rest);
        text.push('\n');
    }
    if text.len() > first {
        text.pop();
    }
}
