//! UPDSA of an SA that has its keys changes limits. Linux takes new ports and addresses as well, and ignores every other change
//! (`xfrm_state_update`); the data path refuses all changes that it does not make.

use gantry_abi_xfrm::Sa;

use super::Refusal;
use super::association::{End, IN, check, numbers, said_window};

/// Refuses an update that changes anything but limits.
///
/// # Errors
/// EOPNOTSUPP, and those of [`check`].
pub(super) fn check_update(known: &Sa, end: &End, update: &Sa) -> Result<(), Refusal> {
    check(update)?;
    let arrives = matches!(end, End::In(_));
    let keys = |sa: &Sa| (sa.aead.clone(), sa.cipher.clone(), sa.authentication.clone());
    let (output, input) = numbers(update);
    let same = [
        (known.encapsulation == update.encapsulation, "the ports of an SA change with a new one"),
        (keys(known) == keys(update), "the keys of an SA change with a new one"),
        (known.source == update.source, "the source of an SA changes with a new one"),
        (known.reqid == update.reqid, "the reqid of an SA changes with a new one"),
        (
            (known.flags, known.extra_flags) == (update.flags, update.extra_flags),
            "the flags of an SA change with a new one",
        ),
        (
            update.direction.is_none_or(|direction| (direction == IN) == arrives),
            "the direction of an SA does not change",
        ),
        (said_window(known) == said_window(update), "the replay window of an SA changes with a new one"),
        // A program that sends back an SA may have read earlier numbers.
        (
            if arrives { input } else { output } <= end.last_number(),
            "the numbers of an SA go on by themselves: an update does not set them",
        ),
    ];
    match same.into_iter().find(|(is_same, _)| !is_same) {
        Some((_, text)) => Err(Refusal::new(libc::EOPNOTSUPP, text)),
        None => Ok(()),
    }
}
