//! Inputs of a case as tensors, checked against each other.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde_json::Value;
use tch::{Kind, Tensor};
use trainer_plan::Error;

use super::files::{Array, Case};

/// Inputs of one case, and the sizes of the axes that are known so far.
pub(super) struct Inputs<'a> {
    case: &'a Case,
    kind: Kind,
    axes: BTreeMap<char, i64>,
    leaves: BTreeMap<String, Tensor>,
    read: BTreeSet<String>,
}

impl<'a> Inputs<'a> {
    pub(super) fn new(case: &'a Case, kind: Kind) -> Self {
        Self { case, kind, axes: BTreeMap::new(), leaves: BTreeMap::new(), read: BTreeSet::new() }
    }

    /// Returns an array of floats that accumulates a gradient.
    ///
    /// `axes` has one letter per axis. Equal letters are equal sizes, within an array and between arrays; a digit is a
    /// size.
    pub(super) fn floats(&mut self, name: &str, axes: &str) -> Result<Tensor, Error> {
        let leaf = self.constants(name, axes)?.set_requires_grad(true);
        self.leaves.insert(name.to_owned(), leaf.shallow_clone());
        Ok(leaf)
    }

    /// Returns an array of floats without a gradient.
    pub(super) fn constants(&mut self, name: &str, axes: &str) -> Result<Tensor, Error> {
        let array = self.array(name, axes)?;
        Ok(Tensor::from_slice(&array.data).to_kind(self.kind).reshape(&array.shape))
    }

    /// Returns an array of floats in double precision, independent of the requested type.
    pub(super) fn numbers(&mut self, name: &str, axes: &str) -> Result<Vec<f64>, Error> {
        Ok(self.array(name, axes)?.data)
    }

    /// Returns an array of booleans, given as 0 and 1.
    pub(super) fn flags(&mut self, name: &str, axes: &str) -> Result<Vec<bool>, Error> {
        let values = self.integers(name, axes)?;
        values.iter().enumerate().try_for_each(|(at, &value)| self.check(name, at, value, &(0..2)))?;
        Ok(values.into_iter().map(|value| value == 1).collect())
    }

    /// Returns flags as a tensor of rows and positions.
    pub(super) fn grid(&self, flags_bt: &[bool]) -> Tensor {
        Tensor::from_slice(flags_bt).view([self.size('b'), self.size('t')])
    }

    /// Returns an array of whole numbers.
    pub(super) fn integers(&mut self, name: &str, axes: &str) -> Result<Vec<i64>, Error> {
        let array = self.array(name, axes)?;
        let entry = |(at, &value): (usize, &f64)| {
            integer(value).ok_or_else(|| self.input_error(name, format!("entry {at} is {value}, not a whole number")))
        };
        array.data.iter().enumerate().map(entry).collect()
    }

    /// Returns whole numbers within `range`, as an index.
    pub(super) fn index(&mut self, name: &str, axes: &str, range: Range<i64>) -> Result<Tensor, Error> {
        let values = self.integers(name, axes)?;
        for (at, &value) in values.iter().enumerate() {
            self.check(name, at, value, &range)?;
        }
        Ok(Tensor::from_slice(&values))
    }

    /// Returns whole numbers within `range`, as indices of the host.
    pub(super) fn places(&mut self, name: &str, axes: &str, range: &Range<i64>) -> Result<Vec<usize>, Error> {
        let values = self.integers(name, axes)?;
        let place = |(at, value): (usize, i64)| {
            self.check(name, at, value, range)?;
            Ok(usize::try_from(value).expect("ranges begin at 0"))
        };
        values.into_iter().enumerate().map(place).collect()
    }

    /// Returns an error if entry `at` of `name` is outside `range`.
    pub(super) fn check(&self, name: &str, at: usize, value: i64, range: &Range<i64>) -> Result<(), Error> {
        if range.contains(&value) {
            return Ok(());
        }
        Err(self.input_error(name, format!("entry {at} is {value}, outside {}..{}", range.start, range.end)))
    }

    /// Whether an input is given.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.case.inputs.contains_key(name)
    }

    /// Returns the size of an axis of an array that was read before.
    pub(super) fn size(&self, axis: char) -> i64 {
        self.axes[&axis]
    }

    /// Returns a number of the variant, which must be finite and above `above`.
    pub(super) fn number(&mut self, name: &str, default: f64, above: f64) -> Result<f64, Error> {
        self.read.insert(format!("variant.{name}"));
        let Some(value) = self.case.variant.get(name) else { return Ok(default) };
        value
            .as_f64()
            .filter(|&number| number > above)
            .ok_or_else(|| self.variant_error(name, &format!("{value} is not a number above {above}")))
    }

    /// Returns a whole number of the variant within `range`.
    pub(super) fn whole<T: TryFrom<i64>>(&mut self, name: &str, default: i64, range: Range<i64>) -> Result<T, Error> {
        self.read.insert(format!("variant.{name}"));
        let value = self.case.variant.get(name).cloned().unwrap_or_else(|| default.into());
        let number = whole(&value).filter(|number| range.contains(number)).and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| {
            let problem = format!("{value} is not a whole number within {}..{}", range.start, range.end);
            self.variant_error(name, &problem)
        })
    }

    /// Returns a boolean of the variant, also given as 0 or 1.
    pub(super) fn flag(&mut self, name: &str, default: bool) -> Result<bool, Error> {
        self.read.insert(format!("variant.{name}"));
        let Some(value) = self.case.variant.get(name) else { return Ok(default) };
        let flag =
            value.as_bool().or_else(|| whole(value).filter(|number| (0..2).contains(number)).map(|one| one == 1));
        flag.ok_or_else(|| self.variant_error(name, &format!("{value} is not one of true, false")))
    }

    /// Returns one of the `choices` of the variant. The first is the default.
    pub(super) fn choice<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> Result<T, Error> {
        self.read.insert(format!("variant.{name}"));
        let Some(value) = self.case.variant.get(name) else { return Ok(choices[0].1) };
        let chosen = choices.iter().find(|(choice, _)| value.as_str() == Some(choice));
        chosen.map(|&(_, chosen)| chosen).ok_or_else(|| {
            let known: Vec<_> = choices.iter().map(|(choice, _)| format!("`{choice}`")).collect();
            self.variant_error(name, &format!("{value} is not one of {}", known.join(", ")))
        })
    }

    /// Returns the gradients of all arrays of floats after a backward pass, 0 for an array that it did not reach.
    pub(super) fn gradients(&self) -> BTreeMap<String, Array> {
        let gradient = |leaf: &Tensor| {
            let gradient = leaf.grad();
            let values = if gradient.defined() { gradient } else { leaf.zeros_like() };
            let data = Vec::try_from(values.to_kind(Kind::Double).reshape([-1])).expect("a vector of doubles");
            Array { shape: leaf.size(), data }
        };
        self.leaves.iter().map(|(name, leaf)| (name.clone(), gradient(leaf))).collect()
    }

    /// Returns the fields that were not read.
    pub(super) fn unread(&self) -> impl Iterator<Item = String> {
        let inputs = self.case.inputs.keys().map(|name| format!("inputs.{name}"));
        let variant = self.case.variant.keys().map(|name| format!("variant.{name}"));
        inputs.chain(variant).filter(|field| !self.read.contains(field))
    }

    fn array(&mut self, name: &str, axes: &str) -> Result<Array, Error> {
        self.read.insert(format!("inputs.{name}"));
        let value = self.case.inputs.get(name).unwrap_or(&Value::Null);
        let array: Array = serde::Deserialize::deserialize(value).map_err(|error| {
            self.input_error(name, format!("{error}; an input is {{\"shape\": […], \"data\": [flat, row-major]}}"))
        })?;
        self.bind_axes(name, axes, &array.shape)?;
        let entries: i64 = array.shape.iter().product();
        if usize::try_from(entries) == Ok(array.data.len()) {
            return Ok(array);
        }
        Err(self
            .input_error(name, format!("shape {:?} takes {entries} entries, not {}", array.shape, array.data.len())))
    }

    fn bind_axes(&mut self, name: &str, axes: &str, shape: &[i64]) -> Result<(), Error> {
        let mut known = self.axes.clone();
        let mut known_size =
            |axis: char, size| axis.to_digit(10).map_or_else(|| *known.entry(axis).or_insert(size), i64::from);
        let fits = axes.chars().count() == shape.len()
            && axes.chars().zip(shape).all(|(axis, &size)| size >= 0 && known_size(axis, size) == size);
        if fits {
            self.axes = known;
            return Ok(());
        }
        let size = |axis| self.axes.get(&axis).map_or_else(|| axis.to_string(), |size| format!("{axis} = {size}"));
        let wanted: Vec<_> = axes.chars().map(size).collect();
        Err(self.input_error(name, format!("its shape is {shape:?}, not [{}]", wanted.join(", "))))
    }

    /// Returns an error for a value of the variant.
    pub(super) fn variant_error(&self, name: &str, problem: &str) -> Error {
        self.error(format!("variant.{name}"), problem.to_owned())
    }

    fn input_error(&self, name: &str, problem: String) -> Error {
        self.error(format!("inputs.{name}"), problem)
    }

    fn error(&self, field: String, problem: String) -> Error {
        Error::Case { case: self.case.id.clone(), field, problem }
    }
}

/// Parses a whole JSON number.
fn whole(value: &Value) -> Option<i64> {
    value.as_f64().and_then(integer)
}

fn integer(value: f64) -> Option<i64> {
    // Every whole f64 below 2⁵³ is an i64.
    #[expect(clippy::cast_possible_truncation, reason = "checked on the same line")]
    (value.fract() == 0.0 && value.abs() < 9e15).then_some(value as i64)
}
