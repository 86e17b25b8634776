//! Counts of one filter.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counts of one filter, or of the normalization, over the whole corpus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilterReport {
    /// Kind of the filter, with a number from the second one of its kind on.
    pub name: String,
    /// Documents that reached it, with their bytes.
    pub read: TextCount,
    /// Documents that it removed, with their bytes, by rule.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub removed: BTreeMap<String, TextCount>,
    /// Documents that it changed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub changed: u64,
    /// Bytes by which the changed documents became shorter.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut_bytes: u64,
}

/// Number of documents, and of bytes in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TextCount {
    /// Documents.
    pub documents: u64,
    /// Bytes of text.
    pub bytes: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl TextCount {
    /// Adds one document.
    pub fn add_text(&mut self, text: &str) {
        self.add(Self { documents: 1, bytes: text.len() as u64 });
    }

    /// Adds another count.
    pub fn add(&mut self, other: Self) {
        self.documents += other.documents;
        self.bytes += other.bytes;
    }
}

impl FilterReport {
    /// Returns the documents that it removed, by any rule.
    #[must_use]
    pub fn removed_in_all(&self) -> TextCount {
        let mut sum = TextCount::default();
        self.removed.values().for_each(|count| sum.add(*count));
        sum
    }

    /// Adds the counts of the same filter in another part.
    pub fn add(&mut self, other: &Self) {
        self.read.add(other.read);
        for (rule, count) in &other.removed {
            self.removed.entry(rule.clone()).or_default().add(*count);
        }
        self.changed += other.changed;
        self.cut_bytes += other.cut_bytes;
    }

    /// Adds the reports of all filters of another part to those of this one. Parts of one folder have the same filters.
    pub fn add_all(reports: &mut Vec<Self>, others: &[Self]) {
        for other in others {
            match reports.iter_mut().find(|report| report.name == other.name) {
                Some(report) => report.add(other),
                None => reports.push(other.clone()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(name: &str, documents: u64) -> FilterReport {
        let count = TextCount { documents, bytes: 10 * documents };
        FilterReport {
            name: name.into(),
            read: count,
            removed: [("rule".to_owned(), count)].into(),
            changed: documents,
            cut_bytes: 3,
        }
    }

    #[test]
    fn reports_are_added_by_name() {
        let mut sum = vec![report("a", 1)];
        FilterReport::add_all(&mut sum, &[report("a", 2), report("b", 4)]);
        assert_eq!(sum[0].removed_in_all(), TextCount { documents: 3, bytes: 30 });
        assert_eq!((sum[0].changed, sum[0].cut_bytes, sum[0].read.documents), (3, 6, 3));
        assert_eq!(sum[1], report("b", 4));
    }
}
