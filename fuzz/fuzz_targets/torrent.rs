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

use gantry_lab::memory::{Counting, within};
use libfuzzer_sys::fuzz_target;
use metainfo::{DIGEST, Kind, Metainfo, PIECE_DIGEST};

#[global_allocator]
static MEMORY: Counting = Counting;

fuzz_target!(|data: &[u8]| {
    let Ok(torrent) = within(4 * data.len() + (64 << 10), || Metainfo::read(data)) else { return };
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
        for part in v1.parts() {
            let path = metainfo::path(part.names);
            assert!(below(&path));
            if let Kind::Link(target) = part.kind {
                assert!(leads_below(path.components().count() - 1, &metainfo::path(target)));
            }
        }
        assert_eq!(v1.parts().count(), v1.count);
        let length: u64 = v1.parts().map(|part| part.length).sum();
        assert_eq!(v1.digests.len() as u64, length.div_ceil(torrent.piece) * PIECE_DIGEST as u64);
    }
    let each = torrent.v2.map(|v2| {
        v2.each(&mut |path, tree| {
            assert!(below(path));
            assert_eq!(tree.root.is_some(), tree.length > 0);
            let pieces = tree.length.div_ceil(torrent.piece);
            let layer = tree.layer.len() as u64;
            assert!(layer == 0 || pieces > 1 && layer == pieces * DIGEST as u64);
            let depth = path.components().count().saturating_sub(2);
            assert!(tree.link.is_none_or(|target| leads_below(depth, &metainfo::path(target))));
            Ok::<_, String>(())
        })
    });
    assert!(each.is_none_or(|each| each.is_ok()));
});
