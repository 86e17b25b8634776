//! Paths of values in a configuration: `prepare.filters[1].pattern`.

use std::collections::BTreeSet;
use std::fmt;

use serde_path_to_error::Segment;
use toml::Value;

/// Step from a value to one inside it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// Key of a table.
    Key(String),
    /// Element of a list.
    Index(usize),
}

/// Steps from a value to one inside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyPath(Vec<Step>);

impl KeyPath {
    /// Converts the path of an error of serde, as far as it is known.
    pub(super) fn from_serde(path: &serde_path_to_error::Path) -> Self {
        let step = |segment: &Segment| match segment {
            Segment::Seq { index } => Some(Step::Index(*index)),
            Segment::Map { key } | Segment::Enum { variant: key } => Some(Step::Key(key.clone())),
            Segment::Unknown => None,
        };
        Self(path.iter().map_while(step).collect())
    }

    pub(super) fn last(&self) -> Option<&Step> {
        self.0.last()
    }

    /// Returns the path of a key of the table at this path.
    pub(super) fn key(&self, key: &str) -> Self {
        Self(self.0.iter().cloned().chain([Step::Key(key.to_owned())]).collect())
    }

    /// Returns the path of the value that holds this one. `None` for the whole value.
    pub(super) fn parent(&self) -> Option<Self> {
        self.0.split_last().map(|(_, rest)| Self(rest.to_vec()))
    }

    /// Returns the path of the outermost list element that holds this value, or the path itself.
    pub(super) fn element(&self) -> Self {
        let end = self.0.iter().position(|step| matches!(step, Step::Index(_))).map_or(self.0.len(), |index| index + 1);
        Self(self.0[..end].to_vec())
    }

    /// Returns the value at this path.
    pub(super) fn find<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(value, |value, step| match step {
            Step::Key(key) => value.as_table()?.get(key),
            Step::Index(index) => value.as_array()?.get(*index),
        })
    }

    pub(super) fn find_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        self.0.iter().try_fold(value, |value, step| match step {
            Step::Key(key) => value.as_table_mut()?.get_mut(key),
            Step::Index(index) => value.as_array_mut()?.get_mut(*index),
        })
    }

    /// Removes the value at this path. Returns `false` if there is none.
    pub(super) fn remove(&self, value: &mut Value) -> bool {
        let Some((last, holder)) = self.last().zip(self.parent()) else { return false };
        match (holder.find_mut(value), last) {
            (Some(Value::Table(table)), Step::Key(key)) => table.remove(key).is_some(),
            (Some(Value::Array(list)), Step::Index(index)) if *index < list.len() => {
                list.remove(*index);
                true
            }
            _ => false,
        }
    }

    /// Returns the dotted path below a section.
    pub(super) fn below(&self, section: &str) -> String {
        let dot = if matches!(self.0.first(), Some(Step::Key(_))) { "." } else { "" };
        format!("{section}{dot}{self}")
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(number, step)| match step {
            Step::Key(key) if number == 0 => write!(f, "{key}"),
            Step::Key(key) => write!(f, ".{key}"),
            Step::Index(index) => write!(f, "[{index}]"),
        })
    }
}

/// Elements that were removed from lists, by their paths in the original value.
#[derive(Debug, Default)]
pub(super) struct RemovedElements(BTreeSet<KeyPath>);

impl RemovedElements {
    pub(super) fn add(&mut self, original: KeyPath) {
        self.0.insert(original);
    }

    /// Converts a path in the value without the removed elements to one in the original value.
    pub(super) fn original(&self, path: &KeyPath) -> KeyPath {
        let mut original = KeyPath::default();
        for step in &path.0 {
            original.0.push(match step {
                Step::Key(key) => Step::Key(key.clone()),
                Step::Index(index) => Step::Index(self.shifted(&original, *index)),
            });
        }
        original
    }

    /// Returns the original index of an element of a list.
    fn shifted(&self, list: &KeyPath, index: usize) -> usize {
        let indices = self.0.iter().filter_map(|removed| match removed.0.split_last() {
            Some((Step::Index(index), rest)) if rest == list.0 => Some(*index),
            _ => None,
        });
        // In ascending order, as the set is.
        indices.fold(index, |index, removed| if removed <= index { index + 1 } else { index })
    }
}

/// Whether a dotted key is another one, or inside it.
pub(super) fn is_within(key: &str, holder: &str) -> bool {
    key.strip_prefix(holder).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(steps: &[Step]) -> KeyPath {
        KeyPath(steps.to_vec())
    }

    fn key(name: &str) -> Step {
        Step::Key(name.to_owned())
    }

    #[test]
    fn paths_are_written_as_in_errors_and_found_in_values() {
        let mut value = Value::Table(toml::from_str("'a.b' = 1\n[[filters]]\nx = 3\nw = [5, 6]").expect("TOML"));
        let word = path(&[key("filters"), Step::Index(0), key("w"), Step::Index(1)]);
        assert_eq!(word.below("prepare"), "prepare.filters[0].w[1]");
        assert_eq!(path(&[Step::Index(2)]).below("prepare"), "prepare[2]");
        assert_eq!(KeyPath::default().below("prepare"), "prepare");
        assert_eq!(word.element().to_string(), "filters[0]");
        assert_eq!(word.find(&value).and_then(Value::as_integer), Some(6));
        assert!(word.remove(&mut value) && !word.remove(&mut value) && word.find(&value).is_none());
        assert!(path(&[key("a.b")]).remove(&mut value), "a dot in a name");
        assert!(!KeyPath::default().remove(&mut value));
    }

    #[test]
    fn removed_elements_shift_later_ones() {
        let list = |index| path(&[key("l"), Step::Index(index)]);
        let mut removed = RemovedElements::default();
        let mut left = vec![0, 1, 2, 3, 4, 5];
        // The first, then the new first, then the one at index 1.
        for now in [0, 0, 1] {
            let original = removed.original(&list(now));
            assert_eq!(original, list(left.remove(now)));
            removed.add(original);
        }
        for (now, original) in left.iter().enumerate() {
            assert_eq!(removed.original(&list(now)), list(*original));
        }
        let other = path(&[key("m"), Step::Index(0)]);
        assert_eq!(removed.original(&other), other);
    }

    #[test]
    fn a_key_is_within_its_holders_only() {
        for holder in ["prepare", "prepare.filters", "prepare.filters[1]", "prepare.filters[1].x"] {
            assert!(is_within("prepare.filters[1].x", holder), "{holder}");
        }
        for other in ["prepare.filters[1].x.y", "prepare.filters[10]", "pre", "prepare.filter", "prepare.filters[1"] {
            assert!(!is_within("prepare.filters[1].x", other), "{other}");
        }
    }
}
