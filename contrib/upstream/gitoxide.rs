//! Does the work of `gix free pack verify` for an index, and of `gix free pack index create` for a pack. Prints the hash of the index.

use std::sync::atomic::AtomicBool;

use gix_pack::{Bundle, bundle, cache, data, index};
use gix_utils::progress::Discard;

static STOP: AtomicBool = AtomicBool::new(false);

fn main() {
    let path = std::path::PathBuf::from(std::env::args_os().nth(1).expect("a pack or its index"));
    let sha1 = gix_hash::Kind::Sha1;
    let hash = if path.extension().is_some_and(|extension| extension == "idx") {
        let pack = data::File::at(path.with_extension("pack"), sha1).unwrap();
        let options = index::verify::integrity::Options {
            verify_mode: index::verify::Mode::HashCrc32,
            traversal: index::traverse::Algorithm::DeltaTreeLookup,
            thread_limit: None,
            make_pack_lookup_cache: || cache::Never,
        };
        let pack = index::verify::PackContext { data: &pack, options };
        let index = index::File::at(path, sha1).unwrap();
        index.verify_integrity(Some(pack), &mut Discard, &STOP).unwrap().actual_index_checksum
    } else {
        let mut pack = std::io::BufReader::new(std::fs::File::open(path).unwrap());
        let find = None::<gix_object::find::Never>;
        let options = bundle::write::Options::default();
        Bundle::write_to_directory(&mut pack, None, &mut Discard, &STOP, find, sha1, options).unwrap().index.index_hash
    };
    println!("{hash}");
}
