//! Torrents come from untrusted sources: no bytes cause a panic, and reading takes at most a multiple of their memory. Paths stay below
//! the folder, and there are as many digests as pieces.

#![no_main]

#[allow(dead_code, reason = "the program uses all of it")]
#[path = "../../cli/src/torrent/bencode.rs"]
mod bencode;
#[allow(dead_code, reason = "the program uses all of it")]
#[path = "../../cli/src/torrent/metainfo.rs"]
mod metainfo;

use std::path::{Component, Path};

use gantry_lab::memory::{CountingAllocator, run_within};
use libfuzzer_sys::fuzz_target;
use metainfo::{Metainfo, V1_DIGEST_SIZE, V1FileKind, V2_DIGEST_SIZE};

#[global_allocator]
static MEMORY: CountingAllocator = CountingAllocator;

fuzz_target!(|data: &[u8]| {
    let Ok(torrent) = run_within(4 * data.len() + (64 << 10), || Metainfo::read(data)) else { return };
    let below = |path: &Path| path.components().all(|component| matches!(component, Component::Normal(_)));
    // A link with `depth` folders above it leads to a path below the torrent's folder.
    let leads_below = |mut depth: usize, target: &Path| {
        target.components().all(|component| match component {
            Component::Normal(_) => {
                depth += 1;
                true
            }
            Component::ParentDir => {
                depth = depth.wrapping_sub(1);
                depth != usize::MAX
            }
            other => other == Component::CurDir,
        })
    };
    if let Some(v1) = &torrent.v1 {
        for file in v1.files() {
            let path = metainfo::path(file.names);
            assert!(below(&path));
            if let V1FileKind::Link(target) = file.kind {
                assert!(leads_below(path.components().count() - 1, &metainfo::path(target)));
            }
        }
        assert_eq!(v1.files().count(), v1.file_count);
        let length: u64 = v1.files().map(|file| file.length).sum();
        assert_eq!(v1.digests.len() as u64, length.div_ceil(torrent.piece_size) * V1_DIGEST_SIZE as u64);
    }
    let each = torrent.v2.map(|v2| {
        v2.for_each_file(&mut |path, file| {
            assert!(below(path));
            assert_eq!(file.root.is_some(), file.length > 0);
            let pieces = file.length.div_ceil(torrent.piece_size);
            let layer = file.layer.len() as u64;
            assert!(layer == 0 || pieces > 1 && layer == pieces * V2_DIGEST_SIZE as u64);
            let depth = path.components().count().saturating_sub(2);
            assert!(file.link.is_none_or(|target| leads_below(depth, &metainfo::path(target))));
            Ok::<_, String>(())
        })
    });
    assert!(each.is_none_or(|each| each.is_ok()));
});
