//! Checksum files of any program come from untrusted sources: no bytes cause a panic, and reading takes at most a multiple of a line's
//! memory. Every digest is as long as its function requires, and names in a bag (BagIt) stay below its folder.

#![no_main]

#[allow(dead_code, reason = "the program uses all of it")]
#[path = "../../cli/src/sum/bag_names.rs"]
mod bag_names;
#[path = "../../cli/src/sum/bsd.rs"]
mod bsd;
#[allow(dead_code, reason = "the program uses all of it")]
#[path = "../../cli/src/sum/checkfile.rs"]
mod checkfile;
#[allow(dead_code, reason = "the program uses all of it")]
#[path = "../../cli/src/sum/digest.rs"]
mod digest;
#[allow(dead_code, reason = "the program uses all of it")]
#[path = "../../cli/src/hex.rs"]
mod hex;
#[allow(dead_code, reason = "the program uses all of it")]
#[path = "../../cli/src/sum/names.rs"]
mod names;
#[allow(dead_code, reason = "the program uses all of it")]
#[path = "../../cli/src/sum/object.rs"]
mod object;
#[allow(dead_code, reason = "the program uses all of it")]
#[path = "../../cli/src/sum/recognise.rs"]
mod recognise;

use bag_names::Escapes;
use gantry_lab::memory::{CountingAllocator, run_within};
use libfuzzer_sys::fuzz_target;
use names::HashId;
use recognise::{Recognised, Recogniser};

#[global_allocator]
static MEMORY: CountingAllocator = CountingAllocator;

// Input: the first byte selects a bag or not, and the functions; then the name of the file, up to a line end, and its lines.
fuzz_target!(|data: &[u8]| {
    let Some((&first, data)) = data.split_first() else { return };
    let (in_bag, function) = (first & 1 == 1, first >> 1);
    let allowed: Vec<HashId> = HashId::all().filter(|id| Some(*id) == HashId::all().nth(function.into())).collect();
    let mut lines = data.split_inclusive(|&byte| byte == b'\n');
    let mut recogniser = Recogniser::new(lines.next().unwrap_or_default(), in_bag.then_some(Escapes::All), &allowed);
    for line in lines {
        let most = 8 * line.len() + (64 << 10);
        let Recognised::Entry(entry) = run_within(most, || recogniser.read(line)) else { continue };
        assert!(!entry.name.is_empty() && !entry.name.contains(&0));
        assert!(!entry.digests.is_empty() && entry.digests.is_sorted_by_key(|(id, _)| *id));
        for (id, digest) in &entry.digests {
            let mut digits = Vec::new();
            digest.write_hex(&mut digits);
            assert_eq!(digits.len(), id.digit_count());
            assert!(allowed.is_empty() || allowed.contains(id));
        }
        let upward = entry.name.split(|&byte| byte == b'/').any(|part| part == b"..");
        assert!(!in_bag || !upward && !entry.name.starts_with(b"/"));
    }
});
