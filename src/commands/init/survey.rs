//! Survey of a corpus: its files, and the first documents of a few of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pipeline::corpus::{
    AnyFormat, Corpus, CorpusConfig, FileExtensions, InputFile, Part, RejectReason, group, is_hidden,
    without_compression,
};
use pipeline::prepare::PrepareConfig;
use schemas::PartId;
use serde_json::Value;
use telemetry::quantities::count;

use super::mixed_formats;
use crate::config::corpus::is_there;
use crate::exit::Usage;

/// Files to sample.
const FILES: usize = 3;

/// Minimum number of files that are written as a glob.
const FILES_OF_PATTERN: usize = 4;

/// Documents to read per file.
const DOCUMENTS: usize = 50;

/// Records to read per file until its first documents are found: empty ones are skipped.
const RECORDS: usize = 10_000;

/// Files whose format is checked. The preparation checks the others.
const CHECKED_FILES: usize = 1000;

/// Minimum number of documents for a validation split.
const DOCUMENTS_MIN: u64 = 100;

/// Bytes of a text that are searched for lines.
const HEAD: u64 = 1 << 16;

/// Common names of the text field, the most likely first.
const TEXT_FIELDS: [&str; 9] =
    ["text", "content", "body", "raw_content", "document", "article", "abstract", "message", "sentence"];

/// Minimum mean length of a text field, in bytes. Versions, labels and titles are shorter.
const TEXT_BYTES_MIN: usize = 40;

/// Common names of the id field.
const ID_FIELDS: [&str; 6] = ["id", "_id", "doc_id", "document_id", "url", "guid"];

/// Result of the survey.
#[derive(Clone, Debug)]
pub(super) struct Survey {
    pub(super) inputs: Vec<String>,
    pub(super) format: String,
    pub(super) text_field: Option<String>,
    pub(super) id_field: Option<String>,
    /// Skipped files, in words.
    pub(super) skipped_files: Option<String>,
    pub(super) files: usize,
    pub(super) bytes: u64,
    /// Bytes of text. Estimated for compressed files.
    pub(super) text_bytes: u64,
    /// Bytes of each sampled document.
    pub(super) document_bytes: Vec<u64>,
    /// Whether most letters are Latin. Then words are split at spaces, and case is a choice.
    pub(super) is_latin: bool,
    /// Largest document that fits into `prepare.max_memory_bytes`, in bytes.
    pub(super) max_document_bytes: u64,
    /// Place of a longer document, if one is among the sampled ones.
    pub(super) long_document: Option<String>,
    /// Error of a sampled record that cannot be read, which the preparation will refuse.
    pub(super) unreadable: Option<String>,
}

/// First documents of a file.
struct SampledTexts {
    texts: Vec<String>,
    /// Place of the first document that does not fit into memory.
    long_document: Option<String>,
}

impl Survey {
    pub(super) fn scan(inputs: &[String], named_field: Option<&str>) -> anyhow::Result<Self> {
        let found = |format: &AnyFormat| {
            Corpus::open(&config(inputs, format, "text")).map_err(|error| Usage(error.to_string()))
        };
        if !is_there(inputs) {
            found(&AnyFormat::default())?;
        }
        // The detection skips folders that cannot be read.
        if let Some(cause) = inputs.iter().find_map(|input| unreadable_folder(Path::new(input))) {
            return Err(Usage(cause).into());
        }
        let extensions = FileExtensions::detect(inputs);
        let format = extensions.format().ok_or_else(|| {
            let known: BTreeSet<&str> = AnyFormat::examples().iter().flat_map(|it| it.extensions().to_vec()).collect();
            let known = known.into_iter().collect::<Vec<_>>().join(", *.");
            let unknown = || format!("{}: no file of a known extension (*.{known})", inputs.join(", "));
            Usage(extensions.failure().map_or_else(unknown, str::to_owned))
        })?;
        if let Some(mixed) = mixed_formats::problem(inputs, &extensions) {
            return Err(mixed.into());
        }
        let corpus = found(&format)?;
        let with_bytes: Vec<&InputFile> = corpus.files().iter().filter(|file| file.bytes > 0).collect();
        if with_bytes.is_empty() {
            return Err(no_text(&corpus, "the corpus is empty: every file has 0 bytes").into());
        }
        let sample: Vec<&InputFile> = spread(&with_bytes).collect();
        let mut format = format;
        let mut text_field = None;
        let mut id_field = None;
        if format.has_fields() {
            (text_field, id_field) = fields(&format, &sample, named_field)?;
        } else if let Some(name) = named_field {
            let kind = format.kind();
            return Err(
                Usage(format!("--text-field {name}: files of format `{kind}` have no fields; leave it out")).into()
            );
        } else {
            sample.iter().try_for_each(|file| check(&corpus, file))?;
            if format.extensions() == AnyFormat::default().extensions() {
                format = by_shape(&format, &corpus);
            }
        }
        let reader = Corpus::open(&config(inputs, &format, text_field.as_deref().unwrap_or("text")))?;
        reader.sort_out(reader.files().iter().take(CHECKED_FILES))?;
        let mut found_texts = Vec::new();
        let mut long_document = None;
        let mut unreadable = Vec::new();
        for file in &sample {
            match texts(&reader, file) {
                Ok(sampled) => {
                    found_texts.extend(sampled.texts);
                    long_document = long_document.or(sampled.long_document);
                }
                // One record of a file: the others tell enough, and the preparation reports it again.
                Err(error @ pipeline::Error::UnusableFile { line: Some(_), .. }) => unreadable.push(error),
                Err(error) => return Err(error.into()),
            }
        }
        if found_texts.is_empty() {
            return Err(match (unreadable.pop(), long_document) {
                (Some(error), _) => error,
                (None, Some(place)) => {
                    let limit = reader.reading().max_document_bytes;
                    no_text(
                        &reader,
                        &format!("no document of at most {limit} bytes (the first is {place}); split them"),
                    )
                }
                (None, None) => no_text(&reader, "no text in its first records"),
            }
            .into());
        }
        let mut latin = 0_u64;
        let mut letters = 1_u64;
        for letter in found_texts.iter().flat_map(|text| text.chars().take(2000)) {
            letters += u64::from(letter.is_alphabetic());
            latin += u64::from(letter.is_alphabetic() && u32::from(letter) < 0x250);
        }
        Ok(Self {
            inputs: as_patterns(inputs),
            format: format.kind().to_owned(),
            text_field,
            id_field,
            skipped_files: corpus.skipped_files().description(),
            files: corpus.files().len(),
            bytes: corpus.bytes(),
            text_bytes: corpus.files().iter().map(text_bytes).sum(),
            document_bytes: found_texts.iter().map(|text| text.len() as u64).collect(),
            is_latin: 2 * latin > letters,
            max_document_bytes: reader.reading().max_document_bytes,
            long_document,
            unreadable: unreadable.first().map(ToString::to_string),
        })
    }

    /// Number of files: `1 file`, `12 files`.
    pub(super) fn files(&self) -> String {
        if self.files == 1 { "1 file".to_owned() } else { format!("{} files", count(self.files as u64)) }
    }
}

/// Replaces the files of a folder, which a shell lists for a glob, by the glob: files that are added later are read too.
fn as_patterns(inputs: &[String]) -> Vec<String> {
    let mut patterns = Vec::new();
    let mut groups = BTreeMap::<String, Vec<&String>>::new();
    for input in inputs {
        groups.entry(pattern_of(Path::new(input)).unwrap_or_default()).or_default().push(input);
    }
    for input in inputs {
        let pattern = pattern_of(Path::new(input)).unwrap_or_default();
        let files = &groups[&pattern];
        if files.len() >= FILES_OF_PATTERN && matches_only(&pattern, files) {
            if !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
        } else {
            patterns.push(input.clone());
        }
    }
    patterns
}

/// Returns the glob for all files of a file's folder with its extension, as in `corpus/*.jsonl.zst`.
fn pattern_of(file: &Path) -> Option<String> {
    let name = file.file_name()?.to_str()?;
    let stem = without_compression(name);
    let extension = &name[stem.rfind('.')?..];
    let folder = file.parent()?.to_str()?;
    let is_plain = !folder.contains(['*', '?', '[']) && file.is_file();
    is_plain.then(|| Path::new(folder).join(format!("*{extension}")).display().to_string())
}

/// Whether a glob finds exactly these files.
fn matches_only(pattern: &str, files: &[&String]) -> bool {
    let folder = Path::new(pattern).parent().filter(|folder| !folder.as_os_str().is_empty());
    let Ok(entries) = std::fs::read_dir(folder.unwrap_or(Path::new("."))) else { return false };
    let of_pattern = |path: &Path| pattern_of(path).is_some_and(|found| found.trim_start_matches("./") == pattern);
    let visible = |path: &Path| path.file_name().is_some_and(|name| !is_hidden(&name.to_string_lossy()));
    let found = entries.flatten().map(|entry| entry.path()).filter(|path| visible(path) && of_pattern(path)).count();
    let distinct: BTreeSet<_> = files.iter().collect();
    found == distinct.len()
}

/// Returns the first folder below `input` that cannot be listed, with the cause.
fn unreadable_folder(input: &Path) -> Option<String> {
    if !input.is_dir() {
        return None;
    }
    let entries = match std::fs::read_dir(input) {
        Ok(entries) => entries,
        Err(error) => return Some(format!("{}: {error}", input.display())),
    };
    // Links are followed by the reader, which reports them. Following them here may not end.
    let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let visible = folders.filter(|entry| !is_hidden(&entry.file_name().to_string_lossy()));
    visible.map(|entry| entry.path()).find_map(|folder| unreadable_folder(&folder))
}

/// Returns the error of a corpus without text.
fn no_text(corpus: &Corpus, problem: &str) -> pipeline::Error {
    let first = corpus.files().first().map_or(String::new(), |file| file.path.display().to_string());
    let more = match corpus.files().len() {
        0 | 1 => String::new(),
        all => format!(" and {} more files", all - 1),
    };
    pipeline::Error::UnusableCorpus(format!("{first}{more}: {problem}"))
}

/// Options for a survey: documents that do not fit into memory are skipped.
fn config(inputs: &[String], format: &AnyFormat, text_field: &str) -> CorpusConfig {
    let inputs = inputs.to_vec();
    let format = format.clone();
    let text_field = text_field.to_owned();
    let max_document_bytes = Some(PrepareConfig::default().document_room());
    PrepareConfig { inputs, format, text_field, max_document_bytes, ..PrepareConfig::default() }.corpus()
}

/// Checks that a file has the assumed format.
fn check(corpus: &Corpus, file: &InputFile) -> pipeline::Result<()> {
    corpus.sort_out(std::iter::once(file)).map(|_| ())
}

/// First, middle and last file.
fn spread<'a>(files: &[&'a InputFile]) -> impl Iterator<Item = &'a InputFile> {
    let last = files.len().saturating_sub(1);
    let mut places: Vec<usize> = (0..FILES).map(|at| at * last / (FILES - 1)).collect();
    places.dedup();
    places.into_iter().filter_map(|at| files.get(at).copied())
}

/// Size of the text. Compressed files are assumed to have the ratio of English prose.
fn text_bytes(file: &InputFile) -> u64 {
    let ending = file.path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    let tenths = match ending.as_deref() {
        Some("gz") => 28,
        Some("zst") => 32,
        Some("bz2" | "xz") => 37,
        Some("lz4") => 18,
        Some("parquet") => 17,
        _ => 10,
    };
    file.bytes / 10 * tenths + file.bytes % 10
}

/// First documents of a file. A read error after the first document is left to the preparation.
fn texts(corpus: &Corpus, file: &InputFile) -> pipeline::Result<SampledTexts> {
    check(corpus, file)?;
    let mut sampled = SampledTexts { texts: Vec::new(), long_document: None };
    // The file is one piece: some formats read a file to its end to find the places where it can be cut.
    for part in group(corpus.pieces(file, u64::MAX)?, u64::MAX, 0, PartId(0)) {
        add_texts(corpus, &part, &mut sampled)?;
    }
    Ok(sampled)
}

fn add_texts(corpus: &Corpus, part: &Part, sampled: &mut SampledTexts) -> pipeline::Result<()> {
    for found in corpus.read(part)?.take(RECORDS) {
        match found {
            Ok(record) => {
                let long = record.complaints.iter().find(|complaint| complaint.reason == RejectReason::TooLong);
                if let (None, Some(&complaint)) = (&sampled.long_document, long) {
                    sampled.long_document = Some(corpus.describe(part, complaint));
                }
                sampled.texts.extend(record.document.map(|document| document.text));
            }
            Err(error) if sampled.texts.is_empty() => return Err(error),
            Err(_) => break,
        }
        if sampled.texts.len() == DOCUMENTS {
            break;
        }
    }
    Ok(())
}

/// Names of the text field and the id field, from the first documents. `named` is that of `--text-field`.
fn fields(
    format: &AnyFormat,
    sample: &[&InputFile],
    named: Option<&str>,
) -> anyhow::Result<(Option<String>, Option<String>)> {
    let lines = AnyFormat::of_kind("text_lines").expect("it is registered");
    let objects: Vec<Value> = sample
        .iter()
        .filter_map(|file| Corpus::open(&config(&[file.path.display().to_string()], &lines, "text")).ok())
        .filter_map(|corpus| corpus.files().first().and_then(|file| texts(&corpus, file).ok()))
        .flat_map(|sampled| sampled.texts)
        .filter_map(|line| serde_json::from_str(&line).ok())
        // A line may also be a whole array, or one of its texts.
        .filter(Value::is_object)
        .collect();
    if let Some(name) = named {
        // The check of all files refuses a name that none has.
        return Ok((Some(name.to_owned()), id_field(&objects)));
    }
    let is_text = |name: &str| !objects.is_empty() && objects.iter().all(|object| object[name].is_string());
    if let Some(name) = TEXT_FIELDS.into_iter().find(|name| is_text(name)) {
        return Ok((Some(name.to_owned()), id_field(&objects)));
    }
    // The longest field that all documents have.
    if let Some(Value::Object(first)) = objects.first() {
        let length =
            |name: &str| objects.iter().filter_map(|object| object[name].as_str()).map(str::len).sum::<usize>();
        let enough = |name: &&String| is_text(name) && length(name) >= TEXT_BYTES_MIN * objects.len();
        if let Some(name) = first.keys().filter(enough).max_by_key(|name| length(name)) {
            return Ok((Some(name.clone()), id_field(&objects)));
        }
    }
    // A format without line records reports which field names it accepts.
    let mut refused: Vec<pipeline::Error> = Vec::new();
    for name in TEXT_FIELDS {
        let Some(first) = sample.first() else { break };
        let corpus = Corpus::open(&config(&[first.path.display().to_string()], format, name))?;
        match corpus.files().first().map_or(Ok(()), |file| check(&corpus, file)) {
            Ok(()) if objects.is_empty() => return Ok((Some(name.to_owned()), None)),
            Ok(()) => {}
            Err(error) => refused.push(error),
        }
    }
    // An error that is the same for every name is not about the field.
    let is_of_field = refused.iter().any(|error| error.to_string() != refused[0].to_string());
    match refused.into_iter().next() {
        Some(error) if !is_of_field => Err(error.into()),
        Some(error) => Err(by_hand(&error.to_string()).into()),
        None => Err(by_hand("no field holds text in all records").into()),
    }
}

/// Returns the error of a corpus whose text field is not found.
fn by_hand(why: &str) -> Usage {
    Usage(format!("{why}; name the field with `--text-field FIELD`"))
}

fn id_field(objects: &[Value]) -> Option<String> {
    let is_name = |value: &Value| value.is_string() || value.is_u64();
    let name = ID_FIELDS.into_iter().find(|name| objects.iter().all(|object| is_name(&object[*name])));
    name.filter(|_| !objects.is_empty()).map(str::to_owned)
}

/// Format of plain text by shape: many small files are one document each; in a few files, lines or paragraphs are
/// documents.
fn by_shape(format: &AnyFormat, corpus: &Corpus) -> AnyFormat {
    let files = corpus.files().len() as u64;
    if files >= DOCUMENTS_MIN && corpus.bytes() / files < 1 << 20 {
        return format.clone();
    }
    let head = corpus.files().first().and_then(|file| corpus.beginning(file, HEAD).ok()).unwrap_or_default();
    let head = String::from_utf8_lossy(&head).replace("\r\n", "\n");
    let kind = if head.contains("\n\n") { "text_paragraphs" } else { "text_lines" };
    AnyFormat::of_kind(kind).expect("it is registered")
}

#[cfg(test)]
mod tests;
