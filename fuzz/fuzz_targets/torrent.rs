//! Torrents come from anybody: any bytes have an answer, and what is read leads nowhere but below the folder, with as many digests as pieces.

#![no_main]

#[allow(dead_code, reason = "the program uses all of it")]
#[path = "../../cli/src/torrent/bencode.rs"]
mod bencode;
#[allow(dead_code, reason = "the program uses all of it")]
#[path = "../../cli/src/torrent/metainfo.rs"]
mod metainfo;

use std::path::{Component, Path};

use libfuzzer_sys::fuzz_target;
use metainfo::{DIGEST, Metainfo, PIECE_DIGEST};

fuzz_target!(|data: &[u8]| {
    let Ok(torrent) = Metainfo::read(data) else { return };
    let below = |path: &Path| path.components().all(|component| matches!(component, Component::Normal(_)));
    if let Some((parts, digests)) = &torrent.v1 {
        assert!(parts.iter().all(|part| part.path.as_deref().is_none_or(below)));
        let length: u64 = parts.iter().map(|part| part.length).sum();
        assert_eq!(digests.len() as u64, length.div_ceil(torrent.piece) * PIECE_DIGEST as u64);
    }
    for tree in torrent.v2.iter().flatten() {
        assert!(below(&tree.path));
        assert_eq!(tree.root.is_some(), tree.length > 0);
        let pieces = tree.length.div_ceil(torrent.piece);
        assert_eq!(tree.layer.len() as u64, if pieces > 1 { pieces * DIGEST as u64 } else { 0 });
    }
});
