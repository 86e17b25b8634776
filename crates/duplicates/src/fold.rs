//! Fold of all signatures to verdicts, in memory that does not grow with the bands.
//!
//! Documents have numbers in the order in which they are preferred. The first `settled` of them have a verdict, which
//! remains: later documents are compared with them. Those of them that are removed only connect others. Of each cluster,
//! the first document that is not removed stays, so a removed one alone removes none. The fold reads one column at a time: the hashes of the exact texts, then those of
//! each band. It sorts (hash, number) and joins the documents of equal hashes. If a column does not fit into the memory,
//! it is read several times, each time for another range of hashes. A range has more entries than its share only if many
//! documents are equal; then equal entries are joined before more are read. Clusters do not depend on the order of the joins, so
//! the verdicts are a function of the set of (number, signature).

use crate::bit_set::BitSet;
use crate::clusters::Clusters;
use crate::fold_memory::FoldMemory;

/// Size of a fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoldPlan {
    /// Number of documents, including settled ones.
    pub documents: u32,
    /// Documents with lower numbers have a verdict, whatever they equal.
    pub settled: u32,
    /// Number of bands.
    pub bands: usize,
    /// Bytes for hashes that are sorted at a time.
    pub max_bytes: u64,
    /// Whether the verdicts name partners.
    pub keeps_partners: bool,
}

/// Source of the signatures, one column at a time, in any order of documents.
pub trait Columns {
    /// Error of reading.
    type Error;

    /// Calls `visit` with the number of each document and the hash of its exact text.
    fn exact(&mut self, visit: &mut dyn FnMut(u32, u128)) -> Result<(), Self::Error>;

    /// Calls `visit` with the number of each document and its hash of a band.
    fn band(&mut self, band: usize, visit: &mut dyn FnMut(u32, u64)) -> Result<(), Self::Error>;
}

/// Verdicts on all documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// Documents whose normalized text equals that of a document with a lower number.
    pub exact: BitSet,
    /// Other documents that are in a cluster with a lower number.
    pub near: BitSet,
    /// Partner of each document. Empty unless partners are kept.
    partners: Vec<u32>,
}

impl Verdicts {
    /// Returns the partner of a removed document: of an exact duplicate, the first document with the same normalized
    /// text; otherwise the first one of its cluster that stays.
    ///
    /// # Panics
    /// If partners were not kept.
    pub fn partner(&self, document: u32) -> u32 {
        self.partners[document as usize]
    }
}

/// Decides which documents are removed. `removed` has the settled ones that are. Documents that `columns` does not name,
/// and hashes of 0, equal nothing.
///
/// # Errors
/// The first error of reading.
pub fn fold<C: Columns>(plan: &FoldPlan, removed: &BitSet, columns: &mut C) -> Result<Verdicts, C::Error> {
    let mut clusters = Clusters::new(plan.documents);
    let memory = FoldMemory::new(u64::from(plan.documents), plan.max_bytes, plan.keeps_partners);
    let mut entries = Vec::with_capacity(memory.capacity());
    join_column(memory.passes, &mut entries, &mut clusters, |visit| {
        columns.exact(&mut |document, hash| visit(document, words_128(hash)))
    })?;
    drop(entries);
    let mut equals_another = BitSet::new(plan.documents);
    for document in plan.settled..plan.documents {
        if clusters.root(document) != document {
            equals_another.insert(document);
        }
    }
    let mut partners: Vec<u32> = Vec::new();
    if plan.keeps_partners {
        partners = (0..plan.documents).map(|document| clusters.root(document)).collect();
    }
    let mut entries = Vec::with_capacity(memory.capacity());
    for band in 0..plan.bands {
        join_column(memory.passes, &mut entries, &mut clusters, |visit| {
            columns.band(band, &mut |document, hash| visit(document, words_64(hash)))
        })?;
    }
    drop(entries);
    let mut verdicts = decide(plan, removed, &mut clusters, &equals_another);
    if plan.keeps_partners {
        name_partners(removed, &mut clusters, &verdicts, &mut partners);
        verdicts.partners = partners;
    }
    Ok(verdicts)
}

/// Removes the documents after the first one of each cluster that stays.
fn decide(plan: &FoldPlan, removed: &BitSet, clusters: &mut Clusters, equals_another: &BitSet) -> Verdicts {
    let empty = || BitSet::new(plan.documents);
    let mut verdicts = Verdicts { exact: empty(), near: empty(), partners: Vec::new() };
    let mut has_first = empty();
    for document in (0..plan.documents).filter(|&document| !removed.contains(document)) {
        let root = clusters.root(document);
        if !has_first.contains(root) {
            has_first.insert(root);
        } else if document >= plan.settled {
            let kind = if equals_another.contains(document) { &mut verdicts.exact } else { &mut verdicts.near };
            kind.insert(document);
        }
    }
    verdicts
}

/// Replaces the first equal documents by the partners of the documents that are no exact duplicates.
fn name_partners(removed: &BitSet, clusters: &mut Clusters, verdicts: &Verdicts, partners: &mut [u32]) {
    // The first one that stays is the partner of its root, which comes before it. A root that stays is its own.
    let mut has_first = BitSet::new(u32::try_from(partners.len()).expect("documents have numbers of 32 bits"));
    for (document, index) in (0..).zip(0..partners.len()) {
        let root = clusters.root(document);
        if !removed.contains(document) && !has_first.contains(root) {
            has_first.insert(root);
            partners[root as usize] = document;
        }
        if !verdicts.exact.contains(document) {
            partners[index] = partners[root as usize];
        }
    }
}

/// Visitor of the documents of a column, each with the words of its hash.
type VisitHash<'a, const WORDS: usize> = &'a mut dyn FnMut(u32, [u32; WORDS]);

/// Reads a column in passes, and joins the documents of equal hashes. Hashes of 0 equal nothing.
fn join_column<const WORDS: usize, E>(
    passes: u32,
    entries: &mut Vec<([u32; WORDS], u32)>,
    clusters: &mut Clusters,
    mut read: impl FnMut(VisitHash<'_, WORDS>) -> Result<(), E>,
) -> Result<(), E> {
    for pass in 0..passes {
        read(&mut |document, hash| {
            if hash != [0; WORDS] && pass_of(hash[0], passes) == pass {
                if entries.len() == entries.capacity() {
                    join_equal(entries, clusters);
                }
                entries.push((hash, document));
            }
        })?;
        join_equal(entries, clusters);
        entries.clear();
    }
    Ok(())
}

/// Joins the documents of equal hashes, and keeps one entry of each hash.
fn join_equal<const WORDS: usize>(entries: &mut Vec<([u32; WORDS], u32)>, clusters: &mut Clusters) {
    entries.sort_unstable();
    entries.dedup_by(|next, kept| {
        let is_equal = next.0 == kept.0;
        if is_equal {
            clusters.join(next.1, kept.1);
        }
        is_equal
    });
}

/// Pass that handles a hash, by its leading bits. `passes` is a power of two.
fn pass_of(leading: u32, passes: u32) -> u32 {
    leading.checked_shr(32 - passes.trailing_zeros()).unwrap_or(0)
}

#[expect(clippy::cast_possible_truncation, reason = "the words of a hash")]
fn words_64(hash: u64) -> [u32; 2] {
    [(hash >> 32) as u32, hash as u32]
}

#[expect(clippy::cast_possible_truncation, reason = "the words of a hash")]
fn words_128(hash: u128) -> [u32; 4] {
    [(hash >> 96) as u32, (hash >> 64) as u32, (hash >> 32) as u32, hash as u32]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Signatures in memory, in any order.
    #[derive(Clone, Debug)]
    struct Memory(Vec<(u32, u128, Vec<u64>)>);

    impl Columns for Memory {
        type Error = std::convert::Infallible;

        fn exact(&mut self, visit: &mut dyn FnMut(u32, u128)) -> Result<(), Self::Error> {
            self.0.iter().for_each(|(document, hash, _)| visit(*document, *hash));
            Ok(())
        }

        fn band(&mut self, band: usize, visit: &mut dyn FnMut(u32, u64)) -> Result<(), Self::Error> {
            self.0.iter().for_each(|(document, _, bands)| visit(*document, bands[band]));
            Ok(())
        }
    }

    fn verdicts(memory: &Memory, settled: u32, removed: &[u32], max_bytes: u64) -> (Vec<u32>, Vec<u32>) {
        let documents = memory.0.iter().map(|(document, ..)| document + 1).max().unwrap_or(0);
        let mut plan = FoldPlan { documents, settled, bands: 2, max_bytes, keeps_partners: false };
        let mut earlier = BitSet::new(settled);
        for document in removed {
            earlier.insert(*document);
        }
        let Ok(found) = fold(&plan, &earlier, &mut memory.clone());
        plan.keeps_partners = true;
        let Ok(named) = fold(&plan, &earlier, &mut memory.clone());
        assert_eq!((&named.exact, &named.near), (&found.exact, &found.near));
        for document in (0..documents).filter(|&document| found.near.contains(document)) {
            let partner = named.partner(document);
            let is_removed = [&earlier, &found.exact, &found.near].iter().any(|set| set.contains(partner));
            assert!(partner < document && !is_removed, "{partner} of {document}");
        }
        let members = |set: &BitSet| (0..documents).filter(|&document| set.contains(document)).collect();
        (members(&found.exact), members(&found.near))
    }

    /// Hash with the given leading and trailing words.
    fn hash(leading: u64, trailing: u64) -> u64 {
        leading << 60 | trailing
    }

    #[test]
    fn the_lowest_of_a_cluster_stays() {
        let row = |document, exact: u64, a, b| (document, u128::from(exact), vec![a, b]);
        let memory = Memory(vec![
            row(5, 50, 1, 2),
            row(0, 10, 3, 4),
            row(4, 10, 3, 4),
            row(2, 20, 5, 2),
            row(3, 30, 5, 6),
            row(1, 0, 0, 0),
            row(6, 0, 0, 0),
        ]);
        // 4 equals 0; 5 and 3 are joined with 2 by different bands; documents without words equal nothing.
        assert_eq!(verdicts(&memory, 0, &[], 1 << 20), (vec![4], vec![3, 5]));
        assert_eq!(verdicts(&memory, 4, &[], 1 << 20), (vec![4], vec![5]), "settled documents stay");
        assert_eq!(verdicts(&Memory(Vec::new()), 0, &[], 0), (vec![], vec![]));
    }

    #[test]
    fn a_removed_document_connects_others_and_removes_none_alone() {
        let row = |document, exact: u64, a, b| (document, u128::from(exact), vec![a, b]);
        // 0 was removed. It connects 1 and 2, which have no band in common. 3 has its words.
        let memory = Memory(vec![row(0, 10, 1, 2), row(1, 11, 1, 0), row(2, 12, 0, 2), row(3, 10, 0, 0)]);
        assert_eq!(verdicts(&memory, 1, &[0], 1 << 20), (vec![3], vec![2]), "1 stays");
        let alone = Memory(vec![row(0, 10, 1, 2), row(1, 10, 1, 2), row(2, 10, 1, 2)]);
        assert_eq!(verdicts(&alone, 1, &[0], 1 << 20), (vec![2], vec![]), "1 stays in place of 0");
        assert_eq!(verdicts(&alone, 2, &[0], 1 << 20), (vec![2], vec![]));
        assert_eq!(verdicts(&alone, 2, &[0, 1], 1 << 20), (vec![], vec![]));
    }

    #[test]
    fn partners_of_exact_duplicates_have_the_same_text() {
        let row = |document, exact: u64, a| (document, u128::from(exact), vec![a, 0]);
        let rows = [row(0, 10, 1), row(1, 11, 1), row(2, 11, 1), row(3, 12, 2), row(4, 11, 1), row(5, 13, 1)];
        let plan = FoldPlan { documents: 6, settled: 0, bands: 2, max_bytes: 1, keeps_partners: true };
        let Ok(found) = fold(&plan, &BitSet::default(), &mut Memory(rows.to_vec()));
        // 1 is near 0. The words of 2 and 4 are those of 1, which is removed itself.
        assert_eq!((0..6).map(|document| found.partner(document)).collect::<Vec<_>>(), [0, 0, 1, 3, 1, 0]);
        assert_eq!((found.exact.count(), found.near.count()), (2, 2));
    }

    #[test]
    fn equal_hashes_stay_within_the_memory() {
        let one_hash = Memory((0..100_000).map(|document| (document, 1_u128 << 127, vec![0, 0])).collect());
        let memory = FoldMemory::new(100_000, 200_000, false);
        assert_eq!((memory.passes, memory.capacity()), (16, 6250 + 390 + 1024));
        let mut entries = Vec::with_capacity(memory.capacity());
        let mut clusters = Clusters::new(100_000);
        let Ok(()) = join_column(memory.passes, &mut entries, &mut clusters, |visit| {
            one_hash.clone().exact(&mut |document, hash| visit(document, words_128(hash)))
        });
        assert_eq!(entries.capacity(), memory.capacity(), "no more was reserved");
        assert!((0..100_000).all(|document| clusters.root(document) == 0));
    }

    proptest! {
        /// Neither the order of arrival nor the number of passes changes a verdict, and they are those of the definition.
        #[test]
        fn verdicts_depend_on_the_signatures_alone(
            rows in proptest::collection::vec((0_u64..6, 0_u64..9, 0_u64..9), 0..40),
            settled in 0_u32..9,
            removed in proptest::collection::btree_set(0_u32..9, 0..4),
            turn in 0_usize..40,
        ) {
            let row = |(document, &(exact, a, b)): (u32, &(u64, u64, u64))| {
                let wide = |value: u64| if value == 0 { 0 } else { hash(value, value) };
                (document, u128::from(wide(exact)) << 64, vec![wide(a), wide(b)])
            };
            let mut memory = Memory((0..).zip(&rows).map(row).collect());
            let removed: Vec<u32> = removed.into_iter().filter(|&document| document < settled).collect();
            let expected = verdicts(&memory, settled, &removed, 1 << 20);
            prop_assert_eq!(&expected, &by_definition(&rows, settled, &removed));
            if !rows.is_empty() {
                memory.0.rotate_left(turn % rows.len());
            }
            memory.0.reverse();
            for max_bytes in [1, 100, 1 << 20] {
                prop_assert_eq!(&verdicts(&memory, settled, &removed, max_bytes), &expected);
            }
        }
    }

    /// Clusters by repeated comparison of all pairs.
    fn by_definition(rows: &[(u64, u64, u64)], settled: u32, removed: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let lowest = |equal: &dyn Fn(usize, usize) -> bool| {
            let mut lowest: Vec<usize> = (0..rows.len()).collect();
            for _ in rows {
                for a in 0..rows.len() {
                    for b in 0..rows.len() {
                        if equal(a, b) {
                            lowest[a] = lowest[a].min(lowest[b]);
                        }
                    }
                }
            }
            lowest
        };
        let same = |a: u64, b: u64| a == b && a != 0;
        let exact = lowest(&|a, b| same(rows[a].0, rows[b].0));
        let all =
            |a: usize, b: usize| same(rows[a].0, rows[b].0) || same(rows[a].1, rows[b].1) || same(rows[a].2, rows[b].2);
        let cluster = lowest(&all);
        let number = |document: usize| u32::try_from(document).expect("few");
        let is_free = |document: usize| !removed.contains(&number(document));
        let has_an_earlier_one =
            |document: usize| (0..document).any(|other| cluster[other] == cluster[document] && is_free(other));
        let found = (settled as usize..rows.len()).filter(|&document| has_an_earlier_one(document));
        let (exact, near): (Vec<usize>, Vec<usize>) = found.partition(|&document| exact[document] < document);
        let numbers = |documents: Vec<usize>| documents.into_iter().map(number).collect();
        (numbers(exact), numbers(near))
    }
}
