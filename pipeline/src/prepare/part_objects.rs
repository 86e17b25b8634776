//! Names of the objects of parts.
//!
//! An object belongs to a part exactly if its name is one that a preparation writes. Other programs write similar names,
//! such as `train/part-00000-1f2a.snappy.parquet`; their objects are never removed.

use schemas::PartId;

/// Ending of an object of JSON lines.
pub(super) const LINES: &str = ".jsonl.zst";

/// Names in one folder: `part-`, the number of the part, more numbers, and an ending.
struct NamesOfFolder {
    folder: &'static str,
    /// Numbers after that of the part: of its segment, and of the shard.
    more_numbers: usize,
    endings: &'static [&'static str],
}

const NAMES: [NamesOfFolder; 7] = [
    NamesOfFolder { folder: "documents", more_numbers: 1, endings: &[".parquet"] },
    NamesOfFolder { folder: "parts", more_numbers: 1, endings: &[".json"] },
    NamesOfFolder { folder: "removed", more_numbers: 1, endings: &[LINES] },
    NamesOfFolder { folder: "signatures", more_numbers: 0, endings: &[".json", ".bin", LINES] },
    NamesOfFolder { folder: "train", more_numbers: 2, endings: &[".parquet"] },
    NamesOfFolder { folder: "valid", more_numbers: 2, endings: &[".parquet"] },
    NamesOfFolder { folder: "verdicts", more_numbers: 0, endings: &[".bin", LINES] },
];

/// Returns the folders of the objects of parts.
pub(super) fn folders() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|names| names.folder)
}

/// Returns the part to which an object belongs by its name; `None` if no preparation writes that name.
pub(super) fn part_of(name: &str) -> Option<PartId> {
    let (folder, file) = name.split_once('/')?;
    let names = NAMES.iter().find(|names| names.folder == folder)?;
    let stem = names.endings.iter().find_map(|ending| file.strip_suffix(ending))?;
    let mut numbers = stem.strip_prefix("part-")?.split('-');
    let part = number(numbers.next()?, 5)?;
    let more: Vec<u32> = numbers.map(|text| number(text, 2)).collect::<Option<_>>()?;
    (more.len() == names.more_numbers).then_some(PartId(part))
}

/// Whether another program may take an object for one of a part: its name begins as such a name does.
pub(super) fn is_like_a_part(name: &str) -> bool {
    name.split_once('/').is_some_and(|(_, file)| file.starts_with("part-"))
}

/// Parses a number that is written with leading zeros up to a width.
fn number(text: &str, width: usize) -> Option<u32> {
    text.parse().ok().filter(|number| format!("{number:0width$}") == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_a_preparation_writes_are_of_a_part() {
        for (name, part) in [
            ("train/part-00012-00-03.parquet", 12),
            ("valid/part-123456-100-00.parquet", 123_456),
            ("documents/part-00000-01.parquet", 0),
            ("parts/part-00001-00.json", 1),
            ("removed/part-00001-00.jsonl.zst", 1),
            ("signatures/part-00001.json", 1),
            ("signatures/part-00001.bin", 1),
            ("verdicts/part-00001.jsonl.zst", 1),
        ] {
            assert_eq!(part_of(name), Some(PartId(part)), "{name}");
        }
        for name in [
            "train/part-00000-1f2a4c00-77de-4c00-9f1c-0123456789ab-c000.snappy.parquet",
            "train/part-00000.parquet",
            "train/part-00000-00-00.snappy.parquet",
            "train/part-00000-00-00-00.parquet",
            "train/part-00000-of-00010.parquet",
            "train/part-0-00-00.parquet",
            "train/part-000000-00-00.parquet",
            "train/part-+0001-00-00.parquet",
            "train/part-99999999999-00-00.parquet",
            "train/sub/part-00000-00-00.parquet",
            "elsewhere/part-00000-00-00.parquet",
            "train/part-00000-00-00.parquet.bak",
            "train/part-00000-00-00.parquet/_SUCCESS",
            "documents/part-00000-00-00.parquet",
            "parts/part-r-00000.json",
            "parts/readme",
            "valid/part-00099.old",
            "verdicts/00000.json",
        ] {
            assert_eq!(part_of(name), None, "{name}");
        }
    }
}
