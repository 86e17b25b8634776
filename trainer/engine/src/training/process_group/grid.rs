//! Connections of a rank: to all ranks, and along the axes of a grid.
//!
//! # What
//! Many ranks form a grid. An all-gather runs along one axis after the other: each rank then has the bytes of its line, of
//! its plane, and so on, in the order of the ranks.
//!
//! # Why
//! An all-gather of Gloo passes all ranks in a ring. 1,024 ranks on 10 axes need 10 messages instead of 1,023.
//!
//! # Reference
//! With two ranks on each axis, it is recursive doubling: Thakur et al. 2005, "Optimization of Collective Communication
//! Operations in MPICH", section 4.1.

use trainer_plan::Error;
use trainer_plan::scaling::links::grid_axes;

use super::link::{Link, Operation};
use crate::device::native::CheckStatus as _;
use crate::device::native::c10d::{GlooGroup, GroupPlace};

/// Connections of a rank to the others.
#[derive(Debug)]
pub(super) struct Connections {
    /// Connections to all ranks.
    pub all: GlooGroup,
    /// Connections to the ranks that differ in one coordinate only, if there are several axes.
    axes: Vec<GlooGroup>,
}

impl Connections {
    /// Connects a rank by `connect`.
    pub(super) fn new(
        rank: u32,
        world_size: u32,
        connect: impl Fn(GroupPlace<'_>) -> Result<GlooGroup, Error>,
    ) -> Result<Self, Error> {
        let all = connect(GroupPlace { prefix: "all", rank, ranks: world_size })?;
        let lines = lines(rank, &grid_axes(world_size));
        let axes = match lines.as_slice() {
            [_] => Vec::new(),
            several => several.iter().map(|line| connect(line.place())).collect::<Result<_, _>>()?,
        };
        Ok(Self { all, axes })
    }

    /// Returns the bytes of all ranks, as many of each, in the order of the ranks.
    pub(super) fn all_gather(&self, own: &[u8], link: &Link, operation: &Operation) -> Result<Vec<u8>, Error> {
        let mut bytes = own.to_vec();
        let groups = if self.axes.is_empty() { std::slice::from_ref(&self.all) } else { &self.axes };
        for group in groups {
            let (work, gathered) = group.all_gather(&bytes)?;
            link.wait(&work, operation)?;
            bytes = Vec::<u8>::try_from(&gathered).checked()?;
        }
        Ok(bytes)
    }
}

/// Ranks that differ in one coordinate.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    prefix: String,
    /// Coordinate of this rank.
    rank: u32,
    ranks: u32,
}

impl Line {
    fn place(&self) -> GroupPlace<'_> {
        GroupPlace { prefix: &self.prefix, rank: self.rank, ranks: self.ranks }
    }
}

/// Returns the lines of a rank along all axes. Ranks that follow each other differ in the first coordinate.
fn lines(rank: u32, axes: &[u32]) -> Vec<Line> {
    let mut stride = 1;
    let line = |(axis, &ranks): (usize, &u32)| {
        let coordinate = rank / stride % ranks;
        let first = rank - coordinate * stride;
        stride *= ranks;
        Line { prefix: format!("axis{axis}/{first}"), rank: coordinate, ranks }
    };
    axes.iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_join_ranks_that_differ_in_one_coordinate() {
        let line = |prefix: &str, rank, ranks| Line { prefix: prefix.to_owned(), rank, ranks };
        // Coordinates 1, 0, 2.
        let expected = [line("axis0/8", 1, 2), line("axis1/9", 0, 2), line("axis2/1", 2, 3)];
        assert_eq!(lines(9, &[2, 2, 3]), expected);
        assert_eq!(lines(2, &[3]), [line("axis0/0", 2, 3)]);
    }
}
