//! Torrents come from anybody: any bytes have an answer, which takes no more memory than some times the bytes. Paths lead nowhere but below the folder,
//! and there are as many digests as pieces.

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
use metainfo::{DIGEST, Metainfo, PIECE_DIGEST};

#[global_allocator]
static MEMORY: Counting = Counting;

fuzz_target!(|data: &[u8]| {
    let Ok(torrent) = within(4 * data.len() + (64 << 10), || Metainfo::read(data)) else { return };
    let below = |path: &Path| path.components().all(|component| matches!(component, Component::Normal(_)));
    if let Some(v1) = &torrent.v1 {
        assert!(v1.parts().all(|part| part.names.is_none_or(|names| below(&v1.path(names)))));
        assert_eq!(v1.parts().count(), v1.count);
        let length: u64 = v1.parts().map(|part| part.length).sum();
        assert_eq!(v1.digests.len() as u64, length.div_ceil(torrent.piece) * PIECE_DIGEST as u64);
    }
    let each = torrent.v2.map(|v2| {
        v2.each(&mut |path, tree| {
            assert!(below(path));
            assert_eq!(tree.root.is_some(), tree.length > 0);
            let pieces = tree.length.div_ceil(torrent.piece);
            assert_eq!(tree.layer.len() as u64, if pieces > 1 { pieces * DIGEST as u64 } else { 0 });
            Ok::<_, String>(())
        })
    });
    assert!(each.is_none_or(|each| each.is_ok()));
});
