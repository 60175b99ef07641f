use zeroize::Zeroizing;

use super::sys;
use crate::io::read_full;
use crate::output::Failure;

/// More than any cipher has; an HMAC hashes what is longer than its block.
const LONGEST: usize = 1024;

/// Reads a raw key from a descriptor to its end. `stdin_is_data` says that descriptor 0 is taken.
pub(super) fn read(option: &str, descriptor: i32, stdin_is_data: bool) -> Result<Zeroizing<Vec<u8>>, Failure> {
    if descriptor == 0 && stdin_is_data {
        return Err(Failure::Usage(format!("{option} 0 is standard input, where the data comes from; give --in FILE")));
    }
    let failed = |error: &std::io::Error| Failure::at(format_args!("{option} {descriptor}"), error);
    let mut file = sys::descriptor(descriptor).map_err(|error| failed(&error))?;
    // One allocation: a vector that grows leaves copies behind.
    let mut key = Zeroizing::new(vec![0; LONGEST + 1]);
    let length = read_full(&mut file, &mut key).map_err(|error| failed(&error))?;
    if length > LONGEST {
        return Err(Failure::Usage(format!("{option} {descriptor}: more than {LONGEST} bytes, which is no key")));
    }
    key.truncate(length);
    Ok(key)
}
