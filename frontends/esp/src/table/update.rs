//! UPDSA of an SA that has keys changes its limits and the UDP port of its peer. Linux accepts new addresses as well, and ignores every
//! other change (`xfrm_state_update`); the data path refuses every change that it does not make.

use gantry_abi_xfrm::{Encapsulation, Sa};

use super::Refusal;
use super::association::{ActiveSa, SA_DIRECTION_IN, check_features, last_sequence_numbers, replay_window};

/// Refuses an update that changes anything but limits and the peer's port.
///
/// # Errors
/// EOPNOTSUPP, and the errors of [`check_features`].
pub(super) fn check_update(current: &Sa, active: &ActiveSa, update: &Sa) -> Result<(), Refusal> {
    check_features(update)?;
    let is_incoming = matches!(active, ActiveSa::In(_));
    let keys = |sa: &Sa| (sa.aead.clone(), sa.cipher.clone(), sa.authentication.clone());
    // A NAT assigns the peer's port, and may assign another port later.
    let fixed = |sa: &Sa| {
        let mut encapsulation = sa.encapsulation?;
        let Encapsulation { source_port, destination_port, .. } = &mut encapsulation;
        *(if is_incoming { source_port } else { destination_port }) = 0;
        Some(encapsulation)
    };
    let (output, input) = last_sequence_numbers(update);
    let same = [
        (fixed(current) == fixed(update), "of the ports of an SA only the peer's can change: add a new SA"),
        (keys(current) == keys(update), "the keys of an SA cannot change: add a new SA"),
        (current.source == update.source, "the source of an SA cannot change: add a new SA"),
        (current.mode == update.mode, "the mode of an SA cannot change: add a new SA"),
        (current.tfc_padding == update.tfc_padding, "the padding of an SA cannot change: add a new SA"),
        (current.reqid == update.reqid, "the reqid of an SA cannot change: add a new SA"),
        (
            (current.flags, current.extra_flags) == (update.flags, update.extra_flags),
            "the flags of an SA cannot change: add a new SA",
        ),
        (
            update.direction.is_none_or(|direction| (direction == SA_DIRECTION_IN) == is_incoming),
            "the direction of an SA cannot change",
        ),
        (replay_window(current) == replay_window(update), "the replay window of an SA cannot change: add a new SA"),
        // A program that sends back an SA may have read earlier sequence numbers.
        (
            if is_incoming { input } else { output } <= active.last_number(),
            "an update cannot advance the sequence numbers of an SA",
        ),
    ];
    match same.into_iter().find(|(is_same, _)| !is_same) {
        Some((_, text)) => Err(Refusal::new(libc::EOPNOTSUPP, text)),
        None => Ok(()),
    }
}
