//! Cost of a change of one file among two hundred, and the unchanged bytes, rows and masks.

use schemas::columns::{INPUT_IDS, LABELS};
use schemas::manifest::DatasetVersionEntry;
use schemas::{BatchIndex, Epoch, PartId, SampleAddress};

use super::dataset_versions::check_fresh;
use super::dataset_versions::check_others;
use super::dataset_versions::files_of_six;
use super::dataset_versions::text;
use super::*;
use crate::collate::{Item, PlannedView, collate};
use crate::views::AnyView;
use crate::views::mask::Mask;
use crate::views::original::Original;

/// Digests of the model inputs of every row in two epochs: ids after masking, and labels.
type Masks = BTreeMap<(SampleAddress, u64), blake3::Hash>;

fn masks(home: &Home) -> Masks {
    masks_at(home, 0)
}

/// Masks with every part number increased by `moved`.
fn masks_at(home: &Home, moved: u32) -> Masks {
    let manifest = load::open(&home.store()).expect("a manifest");
    let vocab = load::read_vocab(&home.store(), &manifest, manifest.newest()).expect("a vocabulary");
    let views = views(&home.config);
    let mut masks = Masks::new();
    for shard in &manifest.now().train.shards {
        let reader =
            ShardReader::open(&home.store(), shard, ShardExpectation::from_manifest(&manifest)).expect("whole");
        let group = reader.read(0).expect("one row group");
        for (row, epoch) in (0..group.rows()).flat_map(|row| [(row, 0), (row, 1)]) {
            let part = PartId(shard.part.0 + moved);
            let index = SampleAddress { part, row: shard.first_row + u32::try_from(row).expect("few") };
            let sample = group.sample(row);
            let item =
                Item { sample, partner: None, index, seed: 7, epoch: Epoch(epoch), copy: 0, copies: 1, pieces: 1 };
            let batch = collate(&views, &vocab, BatchIndex(0), &[item]);
            masks.insert((index, epoch), batch.row_digests()[0]);
        }
    }
    masks
}

fn views(config: &PrepareConfig) -> [PlannedView; 2] {
    let width = config.max_seq_len as usize;
    let wanted = vec![INPUT_IDS.spec()];
    let frame = AnyView::Original(Original::default());
    let original = PlannedView { name: "original".into(), view: frame, of: None, frame: 0, ids: 0, width, wanted };
    let view = AnyView::Mask(Mask::default());
    let wanted = vec![INPUT_IDS.spec(), LABELS.spec()];
    [original, PlannedView { name: "masked".into(), view, of: Some(0), frame: 0, ids: 1, width, wanted }]
}

/// Returns the masks of all parts except these.
fn others(masks: &Masks, parts: &BTreeSet<PartId>) -> Masks {
    masks.iter().filter(|((sample, _), _)| !parts.contains(&sample.part)).map(|(at, mask)| (*at, *mask)).collect()
}

fn ids(entry: &DatasetVersionEntry) -> BTreeSet<PartId> {
    entry.parts.iter().map(|part| part.id).collect()
}

#[test]
fn one_change_among_two_hundred_files_redraws_no_mask_of_another_part() {
    let home = files_of_six(200);
    let first = home.run().expect("prepared");
    assert!(first.parts_made >= 40, "too few parts to prove anything: {first:?}");
    let line = Document::digest(text(100, 6).lines().nth(2).expect("a line"));
    let changes: [(&str, usize, &dyn Fn() -> PrepareSummary); 4] = [
        ("replace", 50, &|| {
            home.put(50, &text(50, 9));
            home.run().expect("prepared")
        }),
        ("add", 777, &|| {
            home.put(777, &text(777, 6));
            home.run().expect("prepared")
        }),
        ("remove", 51, &|| {
            fs::remove_file(home.folder.path().join("in/51.txt")).expect("there");
            home.run().expect("prepared")
        }),
        ("forget", 100, &|| home.forget(&line).expect("forgotten").0),
    ];
    for (number, (name, file, change)) in changes.into_iter().enumerate() {
        let files = home.data();
        let drawn = masks(&home);
        let held = home.holders(file);
        let summary = change();
        let files_now = home.data();
        let drawn_now = masks(&home);
        let manifest = load::open(&home.store()).expect("a manifest");
        let entry = &manifest.dataset_versions[number + 1];
        let dropped = entry.dropped.iter().copied().collect::<BTreeSet<_>>();
        let new = ids(entry);
        // Rebuilt: only the parts that contained the file.
        let stems: BTreeSet<String> = dropped.iter().map(|id| format!("part-{:05}-", id.0)).collect();
        assert_eq!(stems, held, "{name}: parts that held the file");
        assert!(new.len() <= 2 && dropped.len() <= 2, "{name}: {new:?} for {dropped:?}");
        assert_eq!(summary.parts_made, new.len() as u64, "{name}");
        let earlier = manifest.dataset_versions[..=number].iter().flat_map(ids).max().expect("parts");
        assert!(new.iter().all(|id| *id > earlier), "{name}: a number that was used before");
        // Read: the files of these parts, once.
        let lists = VersionLists::read(&Store::existing(&home.config.folder).expect("there")).expect("lists");
        let bytes = lists.in_effect().into_iter().filter(|(id, _)| new.contains(id)).map(|(_, (_, part))| part.bytes);
        assert_eq!(summary.bytes_read, bytes.sum::<u64>(), "{name}");
        // Unchanged: shards, tables and records, addresses, rows and masks of every other part.
        check_others(&files, &files_now, &stems);
        let kept = others(&drawn, &dropped);
        let kept_now = others(&drawn_now, &new);
        assert!(kept.len() > 200 && kept == kept_now, "{name}: masks of other parts");
        if name != "forget" {
            check_fresh(&home);
        }
    }
}

#[test]
fn masks_are_drawn_at_the_address_of_a_row() {
    let home = files_of_six(20);
    home.run().expect("prepared");
    let here = masks(&home);
    let elsewhere = masks_at(&home, 100);
    let equal = here.values().zip(elsewhere.values()).filter(|(a, b)| a == b).count();
    // A short row has one masked token, which can be the same by chance.
    assert!(here.len() > 20 && equal * 2 < here.len(), "{equal} of {} rows have the same mask", here.len());
}
