use zeroize::Zeroizing;

use super::sys;
use crate::io::read_full;
use crate::output::Failure;

/// Most bytes of a key. A longer MAC key gains nothing, because HMAC hashes a key that is longer than its block.
const MAX_KEY_LENGTH: usize = 1024;

/// Reads a raw key from a descriptor to its end. If `stdin_is_data` is true, the data comes from descriptor 0, so the key cannot.
pub(super) fn read(option: &str, descriptor: i32, stdin_is_data: bool) -> Result<Zeroizing<Vec<u8>>, Failure> {
    if descriptor == 0 && stdin_is_data {
        return Err(Failure::Usage(format!("{option} 0 is standard input, where the data comes from; give --in FILE")));
    }
    let failed = |error: &std::io::Error| Failure::at(format_args!("{option} {descriptor}"), error);
    let mut file = sys::descriptor(descriptor).map_err(|error| failed(&error))?;
    // Allocates once: a vector that grows would leave copies of the key behind.
    let mut key = Zeroizing::new(vec![0; MAX_KEY_LENGTH + 1]);
    let length = read_full(&mut file, &mut key).map_err(|error| failed(&error))?;
    if length > MAX_KEY_LENGTH {
        return Err(Failure::Usage(format!(
            "{option} {descriptor}: more than {MAX_KEY_LENGTH} bytes, which is too long for a key"
        )));
    }
    key.truncate(length);
    Ok(key)
}
