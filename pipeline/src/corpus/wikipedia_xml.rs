//! Wikipedia XML dumps: each article is a document.
//!
//! # What
//! Pages of namespace 0 that are no redirects, as `pages-articles.xml` files have them, also compressed
//! (`.xml.bz2`, also multistream). The first line is the title, the others the text without markup.
//!
//! # Why
//! Every wiki of Wikimedia is published in this format.
//!
//! # Definition
//! A page is an element `page` with `title`, `ns`, `id` and `revision/text`; of several revisions the last one counts.
//! Pages of other content models than `wikitext` are skipped. [`wikitext`] removes templates, tables, references,
//! files, categories and tags; headings are lines, and links their labels. The id of a document is the id of the page.
//! Templates are not expanded: text that only a template makes, such as converted units, is missing.
//!
//! A page that is no XML, or lacks its id or namespace, is skipped and counted. The length of a page is that of its
//! element. Plain files are cut after pages.
//!
//! # Reference
//! <https://www.mediawiki.org/wiki/Help:Export#Export_format>; <https://www.mediawiki.org/wiki/Specs/wikitext>.

use std::borrow::Cow;
use std::mem::take;
use std::ops::Range;

use super::Format;
use super::input_split::{PieceEnd, PieceRange, PieceReader, ReadOptions};
use super::inputs::InputFile;
use super::piece_ranges::cut_at;
use super::record::{Record, RecordBuffers, RejectReason};
use super::scanner::{ByteScanner, count_searched};
use super::sniff::{FileCheck, beginning, head, of_text};
use crate::Result;

mod page;
mod wikitext;
mod wikitext_frames;

use self::page::{Page, hidden_namespaces};

const BEGIN: &[u8] = b"<page>";
const END: &[u8] = b"</page>";

/// Bytes of a file in which the names of its namespaces are.
const SITE_BYTES: u64 = 64 << 10;

/// Wikipedia XML dump: each article is a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WikipediaPages;

impl Format for WikipediaPages {
    fn extensions(&self) -> &'static [&'static str] {
        &["xml"]
    }

    fn check(&self, file: &InputFile, reading: &ReadOptions) -> Result<FileCheck> {
        let head = head(file, reading)?;
        let check = of_text(&head);
        let is_dump =
            memchr::memmem::find(&head, b"<mediawiki").is_some() || memchr::memmem::find(&head, BEGIN).is_some();
        if check.unfit.is_none() && !head.is_empty() && !is_dump {
            return Ok(FileCheck::unfit(
                "no dump of a wiki: it has no element `mediawiki`; take it out of `prepare.inputs`",
            ));
        }
        Ok(check)
    }

    fn pieces(&self, file: &InputFile, stride: u64, reading: &ReadOptions) -> Result<Vec<PieceRange>> {
        cut_at(file, stride, reading, |from| end_of_page(file, from, reading))
    }

    fn open(&self, file: &InputFile, range: &Range<u64>, reading: &ReadOptions) -> Result<Box<dyn PieceReader>> {
        let site = beginning(file, SITE_BYTES, reading)?;
        let hidden = hidden_namespaces(&String::from_utf8_lossy(&site));
        Ok(Box::new(PageReader { bytes: ByteScanner::open(file, range, reading)?, hidden }))
    }

    #[cfg(test)]
    fn example(&self) -> super::contract::Example {
        super::contract::Example {
            write: |texts| {
                let pages = texts.iter().enumerate().map(|(id, text)| {
                    let (title, text) = text.split_once(' ').unwrap_or((text, ""));
                    tests::page(title, 0, id, &format!("'''{}'''", text.replace(' ', "&#32;")))
                });
                tests::dump(&pages.collect::<String>())
            },
            dirty: tests::dirty(),
            texts: &["One\ntwo", "Four\na\u{fffd}"],
            complaints: &[
                "broken_record:12",
                "broken_record:15",
                "empty_document:18",
                "invalid_utf8:19",
                "broken_record:26",
                "broken_record:33",
            ],
        }
    }
}

/// Returns the offset after the first page that ends after `from`, with its line end.
fn end_of_page(file: &InputFile, from: u64, reading: &ReadOptions) -> Result<u64> {
    let start = from.saturating_sub(END.len() as u64 - 1);
    let mut bytes = ByteScanner::open(file, &(start..file.bytes), &reading.uncounted())?;
    if bytes.pass_to(END)? {
        bytes.take(END.len());
        if bytes.has(1)? && bytes.ahead().starts_with(b"\n") {
            bytes.take(1);
        }
    }
    Ok(bytes.offset())
}

/// Begin or end of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// Offset of the begin.
    Begin(usize),
    /// Offset after the end.
    End(usize),
}

impl Mark {
    fn offset(self) -> usize {
        match self {
            Self::Begin(at) | Self::End(at) => at,
        }
    }
}

/// Returns the first mark.
fn find_mark(bytes: &[u8]) -> Option<Mark> {
    const COMMON: &[u8] = b"page>";
    memchr::memmem::find_iter(bytes, COMMON).find_map(|at| {
        let before = &bytes[..at];
        if before.ends_with(b"</") {
            return Some(Mark::End(at + COMMON.len()));
        }
        before.ends_with(b"<").then(|| Mark::Begin(at - 1))
    })
}

/// Reader of the pages of a piece.
struct PageReader {
    bytes: ByteScanner,
    /// Prefixes of links that are no text: of files and categories.
    hidden: Vec<String>,
}

impl PageReader {
    /// Finds the end of the page that begins here. Returns its length if it fits into memory and is whole.
    ///
    /// A page without an end ends where the next one begins. So the bytes after it are searched once, not once per page.
    fn page(&mut self, start: u64, line: u64) -> Result<std::result::Result<usize, Record>> {
        let mut searched = BEGIN.len();
        loop {
            let from = (searched + 1).saturating_sub(END.len()).max(BEGIN.len());
            let mark = find_mark(&self.bytes.ahead()[from..]);
            count_searched(mark.map_or(self.bytes.ahead().len() - from, Mark::offset));
            match mark {
                Some(Mark::End(at)) => {
                    let length = from + at;
                    let is_short = self.bytes.reserve(length);
                    return if is_short { Ok(Ok(length)) } else { self.pass_long(start, line).map(Err) };
                }
                Some(Mark::Begin(at)) => {
                    self.bytes.take(from + at);
                    return Ok(Err(Record::rejected(RejectReason::BrokenRecord, start..self.bytes.offset(), line)));
                }
                None => {}
            }
            searched = self.bytes.ahead().len();
            if !self.bytes.reserve(searched) {
                return self.pass_long(start, line).map(Err);
            }
            if !self.bytes.more()? {
                self.bytes.take(searched);
                return Ok(Err(Record::rejected(RejectReason::BrokenRecord, start..self.bytes.offset(), line)));
            }
        }
    }

    /// Takes a page that does not fit into memory.
    fn pass_long(&mut self, start: u64, line: u64) -> Result<Record> {
        let is_whole = self.bytes.pass_to(END)?;
        let length = self.bytes.offset() - start + if is_whole { END.len() as u64 } else { 0 };
        self.bytes.require_skippable(line, length)?;
        self.bytes.take(if is_whole { END.len() } else { 0 });
        Ok(Record::rejected(RejectReason::TooLong, start..start + length, line))
    }

    fn record(&self, xml: &[u8], range: Range<u64>, line: u64, spare: &mut RecordBuffers) -> Option<Record> {
        let xml = String::from_utf8_lossy(xml);
        let Some(page) = Page::parse(&xml) else {
            return Some(Record::rejected(RejectReason::BrokenRecord, range, line));
        };
        if page.namespace.trim() != "0" || page.is_redirect || !matches!(page.model.trim(), "" | "wikitext") {
            return None;
        }
        let mut text = String::from_utf8(take(&mut spare.text)).unwrap_or_default();
        text.push_str(page.title.trim());
        let length = text.len();
        text.push('\n');
        wikitext::to_plain(&page.text, &self.hidden, &mut text);
        if text.len() == length + 1 {
            text.clear();
        }
        let mut record = Record::of_text(Some(page.id), text, range, line);
        if matches!(xml, Cow::Owned(_)) {
            record.complaints.insert(0, (RejectReason::InvalidUtf8, line));
        }
        Some(record)
    }
}

impl PieceReader for PageReader {
    fn next(&mut self, spare: &mut RecordBuffers) -> Result<Option<Record>> {
        loop {
            self.bytes.release();
            if !self.bytes.pass_to(BEGIN)? {
                return Ok(None);
            }
            let start = self.bytes.offset();
            let line = self.bytes.line();
            let length = match self.page(start, line)? {
                Ok(length) => length,
                Err(record) => return Ok(Some(record)),
            };
            let record = self.record(&self.bytes.ahead()[..length], start..start + length as u64, line, spare);
            self.bytes.take(length);
            if record.is_some() {
                return Ok(record);
            }
        }
    }

    fn skip(&mut self, to: u64) -> Result<()> {
        self.bytes.skip(to)
    }

    fn reached(&self) -> PieceEnd {
        self.bytes.reached()
    }
}

#[cfg(test)]
mod tests;
